"""The search index over the passages of a corpus.

Passages are indexed by words at once and get their vectors in the background (:mod:`.embedding`). Embedding a question
and searching have a circuit breaker each. Indexing has none: an ingestion gets the real error, and a slow batch says
nothing about questions.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

import msgspec

from wenmai.clock import system_clock
from wenmai.errors import StoreUnavailable
from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import Breaker, BreakerPolicy
from wenmai.retrieval.corpus import Corpus, R
from wenmai.retrieval.embedding import EmbeddingProgress, OnEmbedded, PassageEmbedding
from wenmai.retrieval.query_embedding import QueryEmbedding, Vector, query_by_words_if_refused
from wenmai.retrieval.ranking import best_hits, best_score
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Search
from wenmai.stores.lease import Leases
from wenmai.stores.structs import Hit, SearchEntry, SearchQuery, Where
from wenmai.text.cjk import ANALYSIS

T = TypeVar("T")

BATCH = 200
"""Passages per indexing batch."""

BATCH_CHARACTERS = 20_000
"""A batch ends with the passage that exceeds this size: analysing it takes 10 to 20 ms."""

STRONG = 0.3
"""Best score of the preferred passages from which the others are not searched."""

SEARCH_SECONDS = 5.0
"""Timeout of a search, whatever the store's own timeouts are."""

_POOL = 200
_POOL_WHILE_EMBEDDING = 400
"""Entries by words, and by vectors, that a search considers."""


_MOST_ENTRIES = 500
"""Entries that one query may score."""


class SearchHits(msgspec.Struct, frozen=True):
    """The hits of a search, in the store's order.

    Attributes:
        vector: of the question, None if they were found by words alone.
        embedder_failed: whether there should have been one.
    """

    hits: list[Hit]
    vector: Vector | None
    embedder_failed: bool


class PassageIndex(Generic[R]):
    """A collection of a search store, one per embedder and analysis of texts: others are not comparable.

    Args:
        corpus: the records to index.
        documents: have the records.
        search: the store.
        embedder: None indexes and searches words alone.
        policy: of the circuit breakers.
        search_seconds: timeout of the search for a question.

    Attributes:
        queries: embeds questions, behind a breaker.
        embedder_breaker, search_breaker: circuit breakers of the two.
        stored: whether the index outlives the process, so that it can be empty while there are documents.
    """

    stored = True

    def __init__(
        self,
        corpus: Corpus[R],
        documents: Documents,
        search: Search,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self.queries: QueryEmbedding = QueryEmbedding(embedder, policy=policy)
        self.embedder_breaker: Breaker = self.queries.breaker
        self.search_breaker: Breaker = Breaker("search", policy=policy)
        self._corpus = corpus
        self._documents = documents
        self._search = search
        self._search_seconds = search_seconds
        suffix = f":{embedder.name}" if embedder else ""
        self._collection = f"{corpus.name}:{ANALYSIS}{suffix}"
        self._earlier_collection = f"{corpus.name}{suffix}"
        self._embedding = self._open_embedding(documents, embedder) if embedder else None

    async def prepare(self, scope: Scope, records: Sequence[R]) -> None:
        """Index records before their documents are written."""
        await self._index(scope, records)

    async def bump_revision(self, scope: Scope) -> None:
        """Invalidate the indexes of other processes: nothing to do, they search the same store."""

    async def add(self, scope: Scope, records: Sequence[R]) -> None:
        """Index or reindex the records, whose documents are written."""
        await self._index(scope, records)
        self.start_embedding(scope)

    def start_embedding(self, scope: Scope) -> None:
        """Give the scope's passages their vectors, in the background."""
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

    async def remove(self, scope: Scope, keys: Sequence[str]) -> None:
        """Remove the records of these keys."""
        if not self._corpus.key_field:
            await self._remove_entries(scope, keys)
            return
        for start in range(0, len(keys), BATCH):
            where = {self._corpus.key_field: tuple(keys[start : start + BATCH])}
            await self._search.remove(scope, self._collection, where=where, shared=self._corpus.shared)

    async def remove_earlier(self, scope: Scope, where: Where) -> None:
        """Remove the entries of the first analysis, whose collection's name had no version; ``where`` matches all."""
        await self._search.remove(scope, self._earlier_collection, where=where, shared=self._corpus.shared)

    async def is_empty(self, scope: Scope) -> bool:
        """Whether the scope has no indexed passage."""
        return (await self._search.size(scope, self._collection, shared=self._corpus.shared)).entries == 0

    async def search(self, scope: Scope, query: str, *, where: Where, preferred: Where, limit: int) -> SearchHits:
        """Search for a question among the passages that match ``where``, favouring those that match ``preferred`` too.

        If the best of the preferred is weak and the best of all is better, the hits are those of all.
        Passages without a vector are found by words; that is no failure.

        Raises:
            StoreUnavailable: the search failed or timed out, or its breaker is open.
        """
        if self._embedding:
            self._embedding.check(scope)
        vector, failed = await self.queries.embed(query)
        # The store's ranking favours entries that have a vector, so the best are chosen here until all have theirs.
        choosing = vector is not None and self._embedding is not None and not self._embedding.is_complete(scope)

        async def hits(matching: Where) -> list[Hit]:
            nonlocal vector, failed
            most, pool = (_POOL_WHILE_EMBEDDING,) * 2 if choosing else (limit, _POOL)
            asked = SearchQuery(text=query, vector=vector, where=matching, limit=most, pool=pool, fields=False)
            [found], refused = await query_by_words_if_refused(
                self._search, scope, self._collection, [asked], shared=self._corpus.shared
            )
            if refused:
                vector, failed = None, True
            return best_hits(found, limit) if choosing else found

        async def found_hits() -> list[Hit]:
            found = await hits({**where, **preferred})
            if not preferred or best_score(found) >= STRONG:
                return found
            of_all = await hits(where)
            return of_all if best_score(of_all) > best_score(found) else found

        found = await self._guarded(found_hits)
        return SearchHits(found, vector, failed)

    async def similarities(self, scope: Scope, vector: Vector, records: Sequence[R]) -> dict[str, float]:
        """The highest cosine of a question with an entry of each record, by key; of those that have a vector.

        Raises:
            StoreUnavailable: see :meth:`search`.
        """
        if self._embedding:
            self._embedding.check(scope)
        ids = [entry.id for record in records for entry, _ in self._corpus.entries_of(record)]
        asked = [
            SearchQuery(vector=vector, ids=ids[at : at + _MOST_ENTRIES], limit=_MOST_ENTRIES, fields=False)
            for at in range(0, len(ids), _MOST_ENTRIES)
        ]

        async def found_hits() -> list[Hit]:
            found, _ = await query_by_words_if_refused(
                self._search, scope, self._collection, asked, shared=self._corpus.shared
            )
            return [hit for hits in found for hit in hits]

        nearest: dict[str, float] = {}
        for hit in await self._guarded(found_hits) if ids else []:
            key = self._corpus.record_key(hit.id)
            if hit.similarity is not None:
                nearest[key] = max(hit.similarity, nearest.get(key, -1.0))
        return nearest

    async def close(self) -> None:
        """Stop embedding."""
        if self._embedding:
            await self._embedding.close()

    def _open_embedding(self, documents: Documents, embedder: Embedder) -> PassageEmbedding[R]:
        leases = Leases(documents, system_clock)
        return PassageEmbedding(
            self._corpus,
            documents,
            self._search,
            self._collection,
            embedder,
            self.embedder_breaker,
            leases=leases,
            complete=self._index_all if self._corpus.key_field else None,
        )

    async def _index_all(self, owner: Scope) -> None:
        """Index all records if none is: those of an earlier version of Wenmai had no parts."""
        if await self.is_empty(owner):
            async for page in self._corpus.pages(self._documents, owner):
                await self._index(owner, [stored.record for stored in page.items])

    async def _index(self, scope: Scope, records: Sequence[R]) -> None:
        entries = [entry for record in records for entry, _ in self._corpus.entries_of(record)]
        for batch in batches(entries, BATCH):
            await self._search.index(scope, self._collection, batch, shared=self._corpus.shared)

    async def _remove_entries(self, scope: Scope, ids: Sequence[str]) -> None:
        await self._search.remove(scope, self._collection, ids, shared=self._corpus.shared)

    async def _guarded(self, work: Callable[[], Awaitable[T]]) -> T:
        """Run a search behind its breaker, with a timeout."""
        with self.search_breaker.guard():
            try:
                async with asyncio.timeout(self._search_seconds):
                    return await work()
            except TimeoutError as timeout:
                raise StoreUnavailable("search", f"no answer within {self._search_seconds:g} s") from timeout


def batches(entries: Sequence[SearchEntry], most: int) -> Iterator[Sequence[SearchEntry]]:
    """Split the entries into batches of at most ``most`` and about :data:`BATCH_CHARACTERS`."""
    start = characters = 0
    for end, entry in enumerate(entries, start=1):
        characters += len(entry.text)
        if end - start == most or characters >= BATCH_CHARACTERS or end == len(entries):
            yield entries[start:end]
            start, characters = end, 0
