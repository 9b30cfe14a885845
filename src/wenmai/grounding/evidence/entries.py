"""Passages of evidence as they are indexed and embedded."""

from collections.abc import Sequence

from wenmai.grounding.evidence.fields import primary_language
from wenmai.retrieval.corpus import Corpus
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import SearchEntry, Where

_EMBEDDED_CHARACTERS = 2000
"""The usual embedders read 512 tokens."""


def _entry_of(record: EvidenceRecord) -> SearchEntry:
    return SearchEntry(
        id=record.evidence_id,
        # Words of the title count twice: they say what the passage is about.
        text=f"{record.title}\n{record.title}\n{record.text}",
        fields={"domains": tuple(record.domains), "language": primary_language(record.language)}
        | ({"tags": tuple(record.tags)} if record.tags else {}),
    )


def _embedded_text(record: EvidenceRecord) -> str:
    return f"{record.title}\n{record.text}"[:_EMBEDDED_CHARACTERS]


EVIDENCE = Corpus(name="evidence", kind=EvidenceRecord, entry_of=_entry_of, embedded_text=_embedded_text)


def in_domains(domains: Sequence[str]) -> Where:
    """Passages of one of the domains; empty means all."""
    return {"domains": tuple(domains)} if domains else {}


def with_tags(tags: Sequence[str]) -> Where:
    """Passages with one of the tags; empty means all."""
    return {"tags": tuple(tags)} if tags else {}


def in_language(language: str | None) -> Where:
    """Passages in the language of a BCP 47 tag, in any of its regions and scripts; None means all."""
    return {} if language is None else {"language": primary_language(language)}
