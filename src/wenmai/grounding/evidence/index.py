"""The search index over passages.

Passages are indexed by words at once and get their vectors in the background (:mod:`.embedding`). Embedding a question
and searching have a circuit breaker each. Indexing has none: an ingestion gets the real error, and a slow batch says
nothing about questions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TypeVar

import msgspec

from wenmai.clock import system_clock
from wenmai.errors import ModelError, StoreUnavailable
from wenmai.grounding.evidence.embedding import EmbeddingProgress, OnEmbedded, PassageEmbedding
from wenmai.grounding.evidence.entries import entry_of
from wenmai.grounding.evidence.fields import primary_language
from wenmai.grounding.evidence.ranking import fused_order, scores
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.resilience.degradation import note_degraded
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Hit, Range, Search, SearchQuery, Where
from wenmai.stores.lease import Leases
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

_POOL = 200
_POOL_WHILE_EMBEDDING = 400
"""Entries by words, and by vectors, that a search considers."""


class SearchHits(msgspec.Struct, frozen=True):
    """The hits of a search, in the store's order; ``embedder_failed`` if they were found by words alone."""

    hits: list[Hit]
    embedder_failed: bool


class EvidenceIndex:
    """A collection of a search store, one per embedder and analysis of texts: others are not comparable.

    Args:
        documents: have the passages.
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
        documents: Documents,
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
        self._embedding = self._open_embedding(documents, embedder) if embedder else None

    async def prepare(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index records before their documents are written."""
        await self._index(scope, records)

    async def bump_revision(self, scope: Scope) -> None:
        """Invalidate the indexes of other processes: nothing to do, they search the same store."""

    async def add(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        """Index or reindex the records, whose documents are written."""
        await self._index(scope, records)
        self.start_embedding(scope)

    def start_embedding(self, scope: Scope) -> None:
        """Give the site's passages their vectors, in the background."""
        if self._embedding:
            self._embedding.start(scope)

    async def finish_embedding(self, scope: Scope, on_progress: OnEmbedded | None = None) -> None:
        """See :meth:`.embedding.PassageEmbedding.finish`."""
        if self._embedding:
            await self._embedding.finish(scope, on_progress)

    @property
    def embedding_progress(self) -> EmbeddingProgress | None:
        """See :attr:`.embedding.PassageEmbedding.progress`; None without an embedder."""
        return self._embedding.progress if self._embedding else None

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
        Passages without a vector are found by words; that is no failure.

        Raises:
            StoreUnavailable: the search failed or timed out, or its breaker is open.
        """
        if self._embedding:
            self._embedding.check(scope)
        vector, failed = await self._embed_query(query)
        # The store's ranking favours entries that have a vector, so the best are chosen here until all have theirs.
        choosing = vector is not None and self._embedding is not None and not self._embedding.is_complete(scope)

        async def hits(where: Where) -> list[Hit]:
            most, pool = (_POOL_WHILE_EMBEDDING,) * 2 if choosing else (limit, _POOL)
            asked = SearchQuery(text=query, vector=vector, where=where, limit=most, pool=pool)
            [found] = await self._search.query(scope, self._collection, [asked], shared=True)
            return _best_hits(found, limit) if choosing else found

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
        """Stop embedding."""
        if self._embedding:
            await self._embedding.close()

    def _open_embedding(self, documents: Documents, embedder: Embedder) -> PassageEmbedding:
        leases = Leases(documents, system_clock)
        return PassageEmbedding(
            documents, self._search, self._collection, embedder, self.embedder_breaker, leases=leases
        )

    async def _index(self, scope: Scope, records: Sequence[EvidenceRecord]) -> None:
        for batch in batches(records, BATCH):
            await self._search.index(scope, self._collection, list(map(entry_of, batch)), shared=True)

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


def _best_hits(hits: Sequence[Hit], limit: int) -> list[Hit]:
    by_id = {hit.id: hit for hit in hits}
    return [by_id[id_] for id_ in fused_order(hits, scores(hits))[:limit]]


def _best(hits: Sequence[Hit]) -> float:
    return max(scores(hits).values(), default=0.0)
