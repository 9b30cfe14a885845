"""The search index over passages: what is indexed of them, and how a question is asked of it.

What a visitor waits for, the question's vector and the search, stands behind a circuit breaker each. Indexing does not:
whoever ingests is told the real error, and a batch that takes long says nothing of how questions fare.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from wenmai.chat.evidence.fields import primary_language
from wenmai.chat.evidence.ranking import scores
from wenmai.errors import ModelError, StoreUnavailable
from wenmai.providers.embedders import Embedder
from wenmai.scope import Scope
from wenmai.stores.base import Hit, Search, SearchEntry
from wenmai.stores.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.stores.degradation import note_degraded
from wenmai.stores.records import EvidenceRecord

T = TypeVar("T")
Vector = Sequence[float]

BATCH = 200
"""Passages that are indexed together."""

BATCH_CHARACTERS = 20_000
"""A batch ends with the passage that takes it past so many characters: analysing them takes 10 to 20 ms."""

STRONG = 0.3
"""Passages in the language asked for are enough from this score on; else the others are looked at too."""

SEARCH_SECONDS = 5.0
"""A visitor waits no longer for the search, whatever the store's own bounds are."""

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
        policy: when embedder and search are left alone.
        search_seconds: how long the search for a question may take.

    Attributes:
        embedder_breaker, search_breaker: what stands in front of the two.
    """

    def __init__(
        self,
        search: Search,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self.embedder_breaker = Breaker("embedder", kind=MODEL, policy=policy)
        self.search_breaker = Breaker("search", policy=policy)
        self._search = search
        self._embedder = embedder
        self._search_seconds = search_seconds
        self._collection = f"evidence:{embedder.name}" if embedder else "evidence"

    async def prepare(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index records whose documents are about to be written.

        Raises:
            ModelError: the embedder failed; the batches before it are indexed.
        """
        await self.add(scope, records)

    async def announce(self, scope: Scope) -> None:
        """Tell the other processes that evidence was written or removed: nothing to do, they ask the same store."""

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index the records, or index them anew.

        Raises:
            ModelError: the embedder failed; the batches before it are indexed.
        """
        for batch in batches(records, BATCH):
            await self._put(scope, batch, await self._vectors(batch))

    async def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """Take the passages of these ids out."""
        await self._search.remove(scope, self._collection, ids, shared=True)

    async def is_empty(self, scope: Scope) -> bool:
        """Whether nothing of the site is indexed.

        Raises:
            StoreUnavailable: the search failed, was late, or is left alone.
        """
        return await self._bounded(lambda: self._search.count(scope, self._collection, shared=True)) == 0

    async def ask(self, scope: Scope, query: str, *, domains: Sequence[str], language: str | None, limit: int) -> Asked:
        """The hits for a question among the domains, preferably in the language.

        Those of all languages are given instead if the best of the language is weak and the best of all is
        better.

        Raises:
            StoreUnavailable: the search failed, was late, or is left alone.
        """
        vector, failed = await self._vector_of(query)

        async def hits(where: Mapping[str, str | Sequence[str]]) -> list[Hit]:
            return await self._search.query(
                scope, self._collection, text=query, vector=vector, where=where, limit=limit, shared=True
            )

        async def search() -> list[Hit]:
            where: dict[str, str | Sequence[str]] = {"domains": tuple(domains)} if domains else {}
            if language is None:
                return await hits(where)
            preferred = await hits(where | {"language": primary_language(language)})
            if _best(preferred) >= STRONG:
                return preferred
            anyhow = await hits(where)
            return anyhow if _best(anyhow) > _best(preferred) else preferred

        return Asked(await self._bounded(search), failed)

    async def close(self) -> None:
        """End what runs behind the answers: nothing does."""

    async def _put(self, scope: Scope, records: Sequence[EvidenceRecord], vectors: Sequence[Vector | None]) -> None:
        entries = [_entry(record, vector) for record, vector in zip(records, vectors, strict=True)]
        await self._search.index(scope, self._collection, entries, shared=True)

    async def _vectors(self, records: Sequence[EvidenceRecord]) -> Sequence[Vector | None]:
        """The records' vectors, None for each without an embedder."""
        if self._embedder is None:
            return [None] * len(records)
        return await self._embedder.embed_passages(
            [f"{record.title}\n{record.text}"[:_EMBEDDED_CHARACTERS] for record in records]
        )

    async def _vector_of(self, query: str) -> tuple[Vector | None, bool]:
        """The question's vector, None without an embedder; True if there is one that failed or is left alone."""
        if self._embedder is None:
            return None, False
        try:
            with self.embedder_breaker.guard():
                return await self._embedder.embed_query(query), False
        except ModelError:
            note_degraded(self.embedder_breaker.name)
            return None, True

    async def _bounded(self, work: Callable[[], Awaitable[T]]) -> T:
        """What the search answers, if it is let through and comes in time."""
        with self.search_breaker.guard():
            try:
                async with asyncio.timeout(self._search_seconds):
                    return await work()
            except TimeoutError as late:
                raise StoreUnavailable("search", f"no answer within {self._search_seconds:g} s") from late


def batches(records: Sequence[EvidenceRecord], most: int) -> Iterator[Sequence[EvidenceRecord]]:
    """The records in runs of at most so many, and of about :data:`BATCH_CHARACTERS`."""
    start = characters = 0
    for end, record in enumerate(records, start=1):
        characters += len(record.text)
        if end - start == most or characters >= BATCH_CHARACTERS or end == len(records):
            yield records[start:end]
            start, characters = end, 0


def _entry(record: EvidenceRecord, vector: Vector | None) -> SearchEntry:
    return SearchEntry(
        id=record.evidence_id,
        # A word of the title says what the passage is about: it counts twice.
        text=f"{record.title}\n{record.title}\n{record.text}",
        vector=vector,
        fields={"domains": tuple(record.domains), "language": primary_language(record.language)},
    )


def _best(hits: Sequence[Hit]) -> float:
    return max(scores(hits).values(), default=0.0)
