"""The search contract in process: a :class:`.partition.Partition` for each scope and collection.

A large search runs in a worker thread; meanwhile its partition is locked, so that only the event loop changes one.
"""

import asyncio
from collections.abc import Sequence
from weakref import WeakValueDictionary

from wenmai.resilience.offload import run_by_size
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope
from wenmai.stores.inprocess.partition import Partition, analysed
from wenmai.stores.search_values import (
    check_collection,
    check_dimension,
    check_entries,
    check_page,
    check_queries,
    check_query_lengths,
    check_removal,
    check_vectors,
    without_zeros,
)
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where

LARGE = 1_000
"""Entries that one query searches on the event loop, in at most 2 ms; each query counts."""


class InProcessSearch:
    """See :class:`wenmai.stores.contracts.Search`; scores as in :mod:`wenmai.stores.bm25`."""

    def __init__(self) -> None:
        self._partitions: dict[tuple[str, ...], Partition] = {}
        self._locks: WeakValueDictionary[tuple[str, ...], asyncio.Lock] = WeakValueDictionary()

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_entries(entries, None)
        check_dimension(entries, self._partition(scope, collection, shared=shared).vectors.dimension)
        latest = {entry.id: entry for entry in entries}
        indexed = await asyncio.to_thread(lambda: {id_: analysed(entry) for id_, entry in latest.items()})
        async with self._lock(scope, collection, shared=shared):
            partition = self._partition(scope, collection, shared=shared)
            check_dimension(entries, partition.vectors.dimension)  # another vector may have come meanwhile
            for id_, copy in indexed.items():
                partition.add(id_, copy, latest[id_].vector)
            if partition.entries:
                self._partitions[_key(scope, collection, shared=shared)] = partition

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_collection(scope, collection)
        check_vectors(entries, None)
        latest = {entry.id: entry for entry in entries}
        async with self._lock(scope, collection, shared=shared):
            partition = self._partition(scope, collection, shared=shared)
            check_dimension(entries, partition.vectors.dimension)
            return sum(partition.embed(id_, entry.text, entry.vector or ()) for id_, entry in latest.items())

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """See :meth:`wenmai.stores.contracts.Search.without_vector`."""
        check_page(after, limit)
        partition = self._partition(scope, collection, shared=shared)
        return sorted(id_ for id_ in partition.entries if id_ not in partition.vectors and id_ > after)[:limit]

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        check_collection(scope, collection)
        async with self._lock(scope, collection, shared=shared):
            partition = self._partition(scope, collection, shared=shared)
            check_queries(queries)
            check_query_lengths(queries, partition.vectors.dimension)
            asked = list(map(without_zeros, queries))
            updating = partition.vectors.is_stale and any(query.vector is not None for query in asked)
            size = LARGE + 1 if updating else len(asked) * len(partition.entries)
            # A cancelled query keeps the lock until its thread is done.
            return await run_to_completion(run_by_size(size, LARGE, lambda: [partition.hits(each) for each in asked]))

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.remove`."""
        check_collection(scope, collection)
        check_removal(ids, where)
        async with self._lock(scope, collection, shared=shared):
            partition = self._partition(scope, collection, shared=shared)
            removed = sum([partition.drop(id_) for id_ in (partition.matching(where) if where else ids or ())])
            if not partition.entries:
                self.clear(scope, collection, shared=shared)
            return removed

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """See :meth:`wenmai.stores.contracts.Search.size`."""
        partition = self._partition(scope, collection, shared=shared)
        return CollectionSize(len(partition.entries), len(partition.vectors))

    def clear(self, scope: Scope, collection: str, *, shared: bool = False) -> None:
        """Remove all entries that the scope has in the collection, at once."""
        self._partitions.pop(_key(scope, collection, shared=shared), None)

    def _lock(self, scope: Scope, collection: str, *, shared: bool) -> asyncio.Lock:
        """Held while the partition changes, or is searched in a thread."""
        return self._locks.setdefault(_key(scope, collection, shared=shared), asyncio.Lock())

    def _partition(self, scope: Scope, collection: str, *, shared: bool) -> Partition:
        """The partition, or an empty one that is not kept."""
        check_collection(scope, collection)
        return self._partitions.get(_key(scope, collection, shared=shared)) or Partition()


def _key(scope: Scope, collection: str, *, shared: bool) -> tuple[str, ...]:
    owner = () if shared else (scope.user_id,)
    return (collection, scope.tenant_id, scope.site_id, *owner)
