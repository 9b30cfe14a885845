"""Versions of a source: which of them is in force.

A source names the one that it supersedes, and the day from which it does. Nothing is marked when it is ingested, so the
order of ingestion does not matter; each search of dated passages looks for what supersedes their sources.
"""

import asyncio
from collections.abc import Sequence
from datetime import date

from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import EvidenceRecord


async def in_force(
    documents: Documents, scope: Scope, records: Sequence[EvidenceRecord], today: date
) -> list[EvidenceRecord]:
    """The records, in order, without those of sources that are superseded by today, or are not yet in force."""
    day = today.isoformat()
    dated = list({record.source_ref for record in records if record.effective_date})
    newer = await asyncio.gather(
        *(documents.list(scope, EvidenceRecord, where={"supersedes": ref}, limit=1) for ref in dated)
    )
    superseded = {
        ref
        for ref, page in zip(dated, newer, strict=True)
        if any(stored.record.effective_date <= day for stored in page.items)
    }
    return [each for each in records if each.source_ref not in superseded and each.effective_date <= day]
