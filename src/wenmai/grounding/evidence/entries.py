"""A passage as it is indexed, and as it is embedded."""

from collections.abc import Sequence

from wenmai.grounding.evidence.fields import primary_language
from wenmai.stores.contracts import SearchEntry
from wenmai.stores.records import EvidenceRecord

_EMBEDDED_CHARACTERS = 2000
"""The usual embedders read 512 tokens."""


def entry_of(record: EvidenceRecord, vector: Sequence[float] | None = None) -> SearchEntry:
    """The passage as it is indexed."""
    return SearchEntry(
        id=record.evidence_id,
        # Words of the title count twice: they say what the passage is about.
        text=f"{record.title}\n{record.title}\n{record.text}",
        vector=vector,
        fields={"domains": tuple(record.domains), "language": primary_language(record.language)},
    )


def embedded_text(record: EvidenceRecord) -> str:
    """The text that is embedded."""
    return f"{record.title}\n{record.text}"[:_EMBEDDED_CHARACTERS]
