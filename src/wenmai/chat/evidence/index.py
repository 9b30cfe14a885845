"""The search index over passages: what is indexed of them, and how a question is asked of it."""

from collections.abc import Mapping, Sequence

import msgspec

from wenmai.chat.evidence.fields import primary_language
from wenmai.chat.evidence.ranking import scores
from wenmai.errors import ModelError
from wenmai.providers.embedders import Embedder
from wenmai.scope import Scope
from wenmai.stores.base import Hit, Search, SearchEntry
from wenmai.stores.records import EvidenceRecord

BATCH = 200
"""Passages that are indexed together."""

STRONG = 0.3
"""Passages in the language asked for are enough from this score on; else the others are looked at too."""

_EMBEDDED_CHARACTERS = 2000
"""What an embedder sees of a passage; the usual ones read 512 tokens."""


class Asked(msgspec.Struct, frozen=True):
    """The hits of a question, in the store's order; ``embedder_failed`` if they were found by words alone."""

    hits: list[Hit]
    embedder_failed: bool


class EvidenceIndex:
    """A collection of a search store, one for each embedder: vectors of two cannot be compared.

    Args:
        search: the store.
        embedder: None indexes and searches words alone.
    """

    def __init__(self, search: Search, embedder: Embedder | None) -> None:
        self._search = search
        self._embedder = embedder
        self._collection = f"evidence:{embedder.name}" if embedder else "evidence"

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index the records, or index them anew.

        Raises:
            ModelError: the embedder failed; the batches before it are indexed.
        """
        for start in range(0, len(records), BATCH):
            batch = records[start : start + BATCH]
            vectors: Sequence[Sequence[float] | None] = [None] * len(batch)
            if self._embedder:
                texts = [f"{record.title}\n{record.text}"[:_EMBEDDED_CHARACTERS] for record in batch]
                vectors = await self._embedder.embed_passages(texts)
            entries = [_entry(record, vector) for record, vector in zip(batch, vectors, strict=True)]
            await self._search.index(scope, self._collection, entries, shared=True)

    async def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """Take the passages of these ids out."""
        await self._search.remove(scope, self._collection, ids, shared=True)

    async def is_empty(self, scope: Scope) -> bool:
        """Whether nothing of the site is indexed."""
        return await self._search.count(scope, self._collection, shared=True) == 0

    async def ask(self, scope: Scope, query: str, *, domains: Sequence[str], language: str | None, limit: int) -> Asked:
        """The hits for a question among the domains, preferably in the language.

        Those of all languages are given instead if the best of the language is weak and the best of all is
        better.
        """
        vector: Sequence[float] | None = None
        failed = False
        if self._embedder:
            try:
                vector = await self._embedder.embed_query(query)
            except ModelError:
                failed = True

        async def hits(where: Mapping[str, str | Sequence[str]]) -> list[Hit]:
            return await self._search.query(
                scope, self._collection, text=query, vector=vector, where=where, limit=limit, shared=True
            )

        where: dict[str, str | Sequence[str]] = {"domains": tuple(domains)} if domains else {}
        if language is None:
            return Asked(await hits(where), failed)
        preferred = await hits(where | {"language": primary_language(language)})
        if _best(preferred) >= STRONG:
            return Asked(preferred, failed)
        anyhow = await hits(where)
        return Asked(anyhow if _best(anyhow) > _best(preferred) else preferred, failed)


def _entry(record: EvidenceRecord, vector: Sequence[float] | None) -> SearchEntry:
    return SearchEntry(
        id=record.evidence_id,
        # A word of the title says what the passage is about: it counts twice.
        text=f"{record.title}\n{record.title}\n{record.text}",
        vector=vector,
        fields={"domains": tuple(record.domains), "language": primary_language(record.language)},
    )


def _best(hits: Sequence[Hit]) -> float:
    return max(scores(hits).values(), default=0.0)
