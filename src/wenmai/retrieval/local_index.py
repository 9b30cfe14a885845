"""In-process index over the passages of a corpus, for a store without search: derived from the documents, kept fresh.

Each process has its own. The *revision* of a corpus on a site invalidates them: a shared marker that is rewritten after
passages were written or removed, so that it differs each time. Each question reads it once. If the index was
built at another revision, the documents are listed and differences are indexed or dropped; unchanged passages are
neither analysed nor embedded again.

A process that dies between its documents and the revision leaves other indexes stale. Ingesting again bumps the
revision in any case, and after :data:`FRESH_SECONDS` an index is reconciled with the documents whatever its revision.

Passages are embedded in the background (:mod:`.embedding`), in the processes that get questions.
"""

import asyncio
import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from wenmai.providers.embedders import Embedder
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.retrieval.corpus import Corpus, R
from wenmai.retrieval.embedding import PassageEmbedding
from wenmai.retrieval.index import SEARCH_SECONDS, PassageIndex, SearchHits, batches
from wenmai.retrieval.query_embedding import Vector
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.inprocess.search import InProcessSearch
from wenmai.stores.records import Marker
from wenmai.stores.structs import SearchEntry, Where

MAX_OWNERS = 1_000
MAX_PASSAGES = 10_000
"""Bounds of a process's index over all owners; that of the least recently used one is evicted first.

A passage of 150 characters takes about 9 kB, with a vector of 384 numbers 12 kB. An owner with more passages is kept
alone: its index must fit into the process.
"""

FRESH_SECONDS = 600.0
SLICE = 25
"""Passages indexed between yields to other tasks: about 3 ms."""

_Revision = tuple[int, datetime, datetime] | None
"""Version, creation and last change of the marker: unique to each state, even if the record was lost."""


@dataclass(slots=True)
class _OwnerIndex:
    """The index of the passages of one owner.

    Attributes:
        digests: id → :func:`_digest` of the entry as indexed.
        revision: the one at which the index was reconciled with the documents.
        fresh_until: on the monotonic clock; from then on the index is stale at any revision.
        pins: tasks that use it now; a pinned index is not evicted.
        lock: held while the index changes.
    """

    owner: Scope
    digests: dict[str, bytes] = field(default_factory=dict)
    revision: _Revision = None
    fresh_until: float = 0.0
    pins: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_fresh(self, revision: _Revision) -> bool:
        return self.revision == revision and time.monotonic() < self.fresh_until

    def has(self, entry: SearchEntry) -> bool:
        return self.digests.get(entry.id) == _digest(entry)


class LocalIndex(PassageIndex[R]):
    """See the module.

    Args:
        corpus: the records to index.
        documents: stores the records and the revision.
        embedder: None indexes and searches words alone. Vectors are kept in this process alone: each process embeds
            every passage of the owners that it is asked about.
        policy: of the circuit breakers.
        search_seconds: timeout of the search for a question, once the index is fresh.
    """

    stored = False

    def __init__(
        self,
        corpus: Corpus[R],
        documents: Documents,
        embedder: Embedder | None,
        *,
        policy: BreakerPolicy | None = None,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self._documents = documents
        self._local_search = InProcessSearch()
        self._indexes: dict[Scope, _OwnerIndex] = {}
        super().__init__(corpus, documents, self._local_search, embedder, policy=policy, search_seconds=search_seconds)

    async def prepare(self, scope: Scope, records: Sequence[R]) -> None:
        """Do nothing: each process indexes from the documents, when a question comes."""

    async def bump_revision(self, scope: Scope) -> None:
        """Invalidate the index of every process, this one too; the next search reconciles it with the documents."""
        await self._documents.put(scope, Marker(name=self._corpus.name))

    async def add(self, scope: Scope, records: Sequence[R]) -> None:
        """See :meth:`.index.PassageIndex.add`."""
        with self._pinned(scope) as index:
            async with index.lock:
                await self._add_words(index, self._entries(records))
        self.start_embedding(scope)

    async def remove(self, scope: Scope, keys: Sequence[str]) -> None:
        """See :meth:`.index.PassageIndex.remove`."""
        with self._pinned(scope) as index:
            async with index.lock:
                removed = frozenset(keys)
                await self._drop(index, [id_ for id_ in index.digests if self._corpus.record_key(id_) in removed])

    async def search(self, scope: Scope, query: str, *, where: Where, preferred: Where, limit: int) -> SearchHits:
        """See :meth:`.index.PassageIndex.search`; changes under an earlier revision are visible."""
        with self._pinned(scope) as index:
            if not index.is_fresh(await self._revision(scope)):
                await self._refresh(index)
            return await super().search(scope, query, where=where, preferred=preferred, limit=limit)

    async def similarities(self, scope: Scope, vector: Vector, records: Sequence[R]) -> dict[str, float]:
        """See :meth:`.index.PassageIndex.similarities`."""
        with self._pinned(scope) as index:
            if not index.is_fresh(await self._revision(scope)):
                await self._refresh(index)
            return await super().similarities(scope, vector, records)

    async def _refresh(self, index: _OwnerIndex) -> None:
        async with index.lock:
            # Read before the documents: a concurrent change bumps it, so that the next search sees the change.
            revision = await self._revision(index.owner)
            if not index.is_fresh(revision):
                await self._reconcile(index)
                index.revision = revision
                index.fresh_until = time.monotonic() + FRESH_SECONDS
                self.start_embedding(index.owner)

    async def _reconcile(self, index: _OwnerIndex) -> None:
        """Reconcile the lexical index with the documents."""
        stored_ids: set[str] = set()
        async for page in self._corpus.pages(self._documents, index.owner):
            entries = self._entries([stored.record for stored in page.items])
            stored_ids |= {entry.id for entry in entries}
            await self._add_words(index, [entry for entry in entries if not index.has(entry)])
        await self._drop(index, [id_ for id_ in index.digests if id_ not in stored_ids])

    def _entries(self, records: Sequence[R]) -> list[SearchEntry]:
        return [entry for record in records for entry, _ in self._corpus.entries_of(record)]

    async def _add_words(self, index: _OwnerIndex, entries: Sequence[SearchEntry]) -> None:
        for batch in batches(entries, SLICE):
            await self._local_search.index(index.owner, self._collection, batch, shared=self._corpus.shared)
            index.digests |= {entry.id: _digest(entry) for entry in batch}
            await asyncio.sleep(0)

    async def _drop(self, index: _OwnerIndex, ids: Sequence[str]) -> None:
        for start in range(0, len(ids), SLICE):
            batch = ids[start : start + SLICE]
            await self._remove_entries(index.owner, batch)
            for id_ in batch:
                index.digests.pop(id_, None)
            await asyncio.sleep(0)

    def _open_embedding(self, documents: Documents, embedder: Embedder) -> PassageEmbedding[R]:
        return PassageEmbedding(
            self._corpus,
            documents,
            self._local_search,
            self._collection,
            embedder,
            self.embedder_breaker,
            leases=None,
            pinned=self._pinned,
        )

    async def _revision(self, scope: Scope) -> _Revision:
        stored = await self._documents.get(scope, Marker, self._corpus.name)
        return (stored.version, stored.created_at, stored.updated_at) if stored else None

    @contextmanager
    def _pinned(self, scope: Scope) -> Iterator[_OwnerIndex]:
        """The index, pinned and most recently used; those over the bounds are evicted at the end."""
        owner = self._corpus.owner(scope)
        index = self._indexes.pop(owner, None) or _OwnerIndex(owner)
        self._indexes[owner] = index
        index.pins += 1
        try:
            yield index
        finally:
            index.pins -= 1
            self._evict()

    def _evict(self) -> None:
        passages = sum(len(index.digests) for index in self._indexes.values())
        *earlier, _ = self._indexes.items()
        for owner, index in earlier:
            if passages <= MAX_PASSAGES and len(self._indexes) <= MAX_OWNERS:
                return
            if not index.pins:
                passages -= len(index.digests)
                del self._indexes[owner]
                self._local_search.clear(owner, self._collection, shared=self._corpus.shared)
                if self._embedding:
                    self._embedding.forget(owner)


def _digest(entry: SearchEntry) -> bytes:
    return hashlib.blake2b(msgspec.msgpack.encode(entry), digest_size=16).digest()
