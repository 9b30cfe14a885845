"""Passages of evidence, and their sentences, as they are indexed and embedded."""

import hashlib
from collections.abc import Sequence

from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.evidence.fields import primary_language
from wenmai.retrieval.corpus import PART, Corpus
from wenmai.stores.records import EvidenceRecord
from wenmai.stores.structs import SearchEntry, Where

_EMBEDDED_CHARACTERS = 2000
"""The usual embedders read 512 tokens."""

_MOST_SENTENCES = 16
"""Entries of a passage; the sentences of a longer one are embedded several at a time."""


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


def _sentences(record: EvidenceRecord) -> list[tuple[SearchEntry, str]]:
    """Entries for similarity alone: without words, and named by their text, so that a vector is never another text's.

    A sentence is embedded with the title, which says what it is about.
    """
    said = [sentence.text for sentence in analyse(record.title, record.text).sentences]
    step = -(-len(said) // _MOST_SENTENCES) or 1
    texts = [
        f"{record.title}：{''.join(said[at : at + step])}"[:_EMBEDDED_CHARACTERS] for at in range(0, len(said), step)
    ]
    fields = {"passage": record.evidence_id}
    return [
        (SearchEntry(id=f"{record.evidence_id}{PART}{digest}", text="", fields=fields), text)
        for text in dict.fromkeys(texts)
        for digest in [hashlib.blake2b(text.encode(), digest_size=8).hexdigest()]
    ]


EVIDENCE = Corpus(
    name="evidence", kind=EvidenceRecord, entries_of=lambda record: [(_entry_of(record), _embedded_text(record))]
)

SENTENCES = Corpus(name="sentences", kind=EvidenceRecord, entries_of=_sentences, key_field="passage")
"""The sentences of passages: a question is compared with each, as the vector of a long passage blurs what it says."""


def in_domains(domains: Sequence[str]) -> Where:
    """Passages of one of the domains; empty means all."""
    return {"domains": tuple(domains)} if domains else {}


def with_tags(tags: Sequence[str]) -> Where:
    """Passages with one of the tags; empty means all."""
    return {"tags": tuple(tags)} if tags else {}


def in_language(language: str | None) -> Where:
    """Passages in the language of a BCP 47 tag, in any of its regions and scripts; None means all."""
    return {} if language is None else {"language": primary_language(language)}
