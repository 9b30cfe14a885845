"""The search index over passages.

Embedding a question and searching have a circuit breaker each. Indexing has none: an ingestion gets the real error,
and a slow batch says nothing about questions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from wenmai.errors import ModelError, StoreUnavailable
from wenmai.grounding.evidence.fields import primary_language
from wenmai.grounding.evidence.ranking import scores
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.resilience.degradation import note_degraded
from wenmai.scope import Scope
from wenmai.stores.contracts import Hit, Range, Search, SearchEntry, SearchQuery, Where
from wenmai.stores.records import EvidenceRecord
from wenmai.text.cjk import ANALYSIS

T = TypeVar("T")
Vector = Sequence[float]

BATCH = 200
"""Passages per indexing batch."""

BATCH_CHARACTERS = 20_000
"""A batch ends with the passage that exceeds this size: analysing it takes 10 to 20 ms."""

STRONG = 0.3
"""Best score in the requested language from which other languages are not searched."""

SEARCH_SECONDS = 5.0
"""Timeout of a search, whatever the store's own timeouts are."""

_EMBEDDED_CHARACTERS = 2000
"""Characters of a passage that are embedded; the usual embedders read 512 tokens."""


class SearchHits(msgspec.Struct, frozen=True):
    """The hits of a search, in the store's order; ``embedder_failed`` if they were found by words alone."""

    hits: list[Hit]
    embedder_failed: bool


class EvidenceIndex:
    """A collection of a search store, one per embedder and analysis of texts: others are not comparable.

    Args:
        search: the store.
        embedder: None indexes and searches words alone.
        policy: of the circuit breakers.
        search_seconds: timeout of the search for a question.

    Attributes:
        embedder_breaker, search_breaker: circuit breakers of the two.
        stored: whether the index outlives the process, so that it can be empty while there are documents.
    """

    stored = True

    def __init__(
        self,
        search: Search,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self.embedder_breaker: Breaker = Breaker("embedder", kind=MODEL, policy=policy)
        self.search_breaker: Breaker = Breaker("search", policy=policy)
        self._search = search
        self._embedder = embedder
        self._search_seconds = search_seconds
        suffix = f":{embedder.name}" if embedder else ""
        self._collection = f"evidence:{ANALYSIS}{suffix}"
        self._earlier_collection = f"evidence{suffix}"

    async def prepare(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index records before their documents are written.

        Raises:
            ModelError: the embedder failed; the batches before it are indexed.
        """
        await self.add(scope, records)

    async def bump_revision(self, scope: Scope) -> None:
        """Invalidate the indexes of other processes: nothing to do, they search the same store."""

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index or reindex the records.

        Raises:
            ModelError: the embedder failed; the batches before it are indexed.
        """
        for batch in batches(records, BATCH):
            await self._put(scope, batch, await self._embed_passages(batch))

    async def remove(self, scope: Scope, ids: Sequence[str]) -> None:
        """Remove the passages of these ids."""
        await self._search.remove(scope, self._collection, ids, shared=True)

    async def remove_earlier(self, scope: Scope) -> None:
        """Remove the entries of the first analysis, whose collection's name had no version."""
        every_language = {"language": Range(low="")}
        await self._search.remove(scope, self._earlier_collection, where=every_language, shared=True)

    async def is_empty(self, scope: Scope) -> bool:
        """Whether the site has no indexed passage."""
        return (await self._search.size(scope, self._collection, shared=True)).entries == 0

    async def search(
        self, scope: Scope, query: str, *, domains: Sequence[str], language: str | None, limit: int
    ) -> SearchHits:
        """Search the domains for a question, preferring the language.

        Hits in all languages are returned instead if the best in the language is weak and the best of all is better.

        Raises:
            StoreUnavailable: the search failed or timed out, or its breaker is open.
        """
        vector, failed = await self._embed_query(query)

        async def hits(where: Where) -> list[Hit]:
            asked = SearchQuery(text=query, vector=vector, where=where, limit=limit)
            [found] = await self._search.query(scope, self._collection, [asked], shared=True)
            return found

        async def preferring_language() -> list[Hit]:
            where: Where = {"domains": tuple(domains)} if domains else {}
            if language is None:
                return await hits(where)
            preferred = await hits({**where, "language": primary_language(language)})
            if _best(preferred) >= STRONG:
                return preferred
            any_language = await hits(where)
            return any_language if _best(any_language) > _best(preferred) else preferred

        return SearchHits(await self._guarded(preferring_language), failed)

    async def close(self) -> None:
        """Stop background tasks: there are none."""

    async def _put(self, scope: Scope, records: Sequence[EvidenceRecord], vectors: Sequence[Vector | None]) -> None:
        entries = [entry_of(record, vector) for record, vector in zip(records, vectors, strict=True)]
        await self._search.index(scope, self._collection, entries, shared=True)

    async def _embed_passages(self, records: Sequence[EvidenceRecord]) -> Sequence[Vector | None]:
        """The records' vectors, None for each without an embedder."""
        if self._embedder is None:
            return [None] * len(records)
        return await self._embedder.embed_passages(
            [f"{record.title}\n{record.text}"[:_EMBEDDED_CHARACTERS] for record in records]
        )

    async def _embed_query(self, query: str) -> tuple[Vector | None, bool]:
        """The question's vector, None without an embedder; True if the embedder failed or its breaker is open."""
        if self._embedder is None:
            return None, False
        try:
            with self.embedder_breaker.guard():
                return await self._embedder.embed_query(query), False
        except ModelError:
            note_degraded(self.embedder_breaker.name)
            return None, True

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a search behind its breaker, with a timeout."""
        with self.search_breaker.guard():
            try:
                async with asyncio.timeout(self._search_seconds):
                    return await work()
            except TimeoutError as timeout:
                raise StoreUnavailable("search", f"no answer within {self._search_seconds:g} s") from timeout


def batches(records: Sequence[EvidenceRecord], most: int) -> Iterator[Sequence[EvidenceRecord]]:
    """Split the records into batches of at most ``most`` and about :data:`BATCH_CHARACTERS`."""
    start = characters = 0
    for end, record in enumerate(records, start=1):
        characters += len(record.text)
        if end - start == most or characters >= BATCH_CHARACTERS or end == len(records):
            yield records[start:end]
            start, characters = end, 0


def entry_of(record: EvidenceRecord, vector: Vector | None) -> SearchEntry:
    """The passage as it is indexed."""
    return SearchEntry(
        id=record.evidence_id,
        # Words of the title count twice: they say what the passage is about.
        text=f"{record.title}\n{record.title}\n{record.text}",
        vector=vector,
        fields={"domains": tuple(record.domains), "language": primary_language(record.language)},
    )


def _best(hits: Sequence[Hit]) -> float:
    return max(scores(hits).values(), default=0.0)
