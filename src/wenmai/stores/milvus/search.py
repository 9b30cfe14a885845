"""The search contract on Milvus; see :mod:`.stored_partition`."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope
from wenmai.stores.milvus.client import Client
from wenmai.stores.milvus.rows import owner_of
from wenmai.stores.milvus.stored_partition import StoredPartition
from wenmai.stores.search_values import (
    check_collection,
    check_page,
    check_queries,
    check_query_lengths,
    check_removal,
    without_zeros,
)
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where

T = TypeVar("T")

MAX_ENTRIES = 200_000
"""Most entries in memory, of all partitions together; the least recently used partitions go first."""


class MilvusSearch:
    """See :class:`wenmai.stores.contracts.Search`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._partitions: OrderedDict[str, StoredPartition] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_collection(scope, collection)
        if entries:
            await self._run(scope, collection, shared, lambda stored: stored.index(entries))

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_collection(scope, collection)
        if not entries:
            return 0
        return await self._run(scope, collection, shared, lambda stored: stored.embed(entries))

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """See :meth:`wenmai.stores.contracts.Search.without_vector`."""
        check_collection(scope, collection)
        check_page(after, limit)

        def work(stored: StoredPartition) -> list[str]:
            partition = stored.follow()
            return sorted(id_ for id_ in partition.entries if id_ not in partition.vectors and id_ > after)[:limit]

        return await self._run(scope, collection, shared, work)

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        check_collection(scope, collection)
        check_queries(queries)

        def work(stored: StoredPartition) -> list[list[Hit]]:
            partition = stored.follow()
            check_query_lengths(queries, partition.vectors.dimension)
            return [partition.hits(without_zeros(query)) for query in queries]

        return await self._run(scope, collection, shared, work)

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
        if where is not None:
            return await self._run(scope, collection, shared, lambda stored: stored.remove_matching(where))
        return await self._run(scope, collection, shared, lambda stored: stored.remove(ids or ()))

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """See :meth:`wenmai.stores.contracts.Search.size`."""
        check_collection(scope, collection)

        def work(stored: StoredPartition) -> CollectionSize:
            partition = stored.follow()
            return CollectionSize(len(partition.entries), len(partition.vectors))

        return await self._run(scope, collection, shared, work)

    async def _run(self, scope: Scope, collection: str, shared: bool, work: Callable[[StoredPartition], T]) -> T:  # noqa: FBT001
        """Run the work in a thread, alone on its partition; a cancelled caller waits for it."""
        owner = owner_of(scope, collection, shared=shared)
        lock = self._locks.setdefault(owner.key, asyncio.Lock())
        async with lock:
            stored = self._partitions.pop(owner.key, None) or StoredPartition(self._client, owner)
            self._partitions[owner.key] = stored
            try:
                return await run_to_completion(asyncio.to_thread(work, stored))
            finally:
                self._evict()

    def _evict(self) -> None:
        """Keep at most :data:`MAX_ENTRIES`, and the partition used last."""
        entries = sum(stored.size for stored in self._partitions.values())
        while entries > MAX_ENTRIES and len(self._partitions) > 1:
            entries -= self._partitions.popitem(last=False)[1].size
