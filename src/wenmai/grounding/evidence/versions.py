"""Versions of a source: which of them is in force.

A source names the one that it supersedes, and the day from which it does. Nothing is marked when it is ingested, so the
order of ingestion does not matter; each search of dated passages looks for what supersedes their sources.
"""

import asyncio
from collections.abc import Sequence
from datetime import date

from wenmai.grounding.evidence.entries import EVIDENCE
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import EvidenceRecord


async def in_force(
    documents: Documents, scope: Scope, records: Sequence[EvidenceRecord], today: date
) -> list[EvidenceRecord]:
    """The records, in order, without those of sources that are superseded by today, or are not yet in force.

    A source is only superseded by a later one, so versions that name each other in a circle are not all left out.
    """
    day = today.isoformat()
    dated = {record.source_ref: record.effective_date for record in records if record.effective_date}
    if not dated:
        return list(records)
    found = await asyncio.gather(*(_is_superseded(documents, scope, ref, since, day) for ref, since in dated.items()))
    superseded = {ref for ref, is_superseded in zip(dated, found, strict=True) if is_superseded}
    return [each for each in records if each.source_ref not in superseded and each.effective_date <= day]


async def _is_superseded(documents: Documents, scope: Scope, source_ref: str, since: str, day: str) -> bool:
    """Whether a source of after ``since`` and of at latest ``day`` supersedes this one."""
    async for page in EVIDENCE.pages(documents, scope, {"supersedes": source_ref}):
        if any(since < stored.record.effective_date <= day for stored in page.items):
            return True
    return False
