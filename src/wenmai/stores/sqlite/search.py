"""The search contract on SQLite: an inverted index per scope and collection, and exact vector search in memory.

FTS5 keeps its statistics over the whole table, so one tenant's texts would change another's scores; our own postings
are counted per partition (scope and collection). Vectors are compared in memory, where they follow the file.
"""

import asyncio
from collections.abc import Sequence

import apsw

from wenmai.scope import Scope
from wenmai.stores.search_values import (
    check_collection,
    check_entries,
    check_page,
    check_queries,
    check_query_lengths,
    check_removal,
    check_vectors,
    without_zeros,
)
from wenmai.stores.sqlite import search_index
from wenmai.stores.sqlite.connection_threads import ConnectionThreads, fetch
from wenmai.stores.sqlite.matching_rows import MatchingRows
from wenmai.stores.sqlite.search_index import Analysed, analysed
from wenmai.stores.sqlite.search_partition import owner_of, partition_of
from wenmai.stores.sqlite.search_query import Reader
from wenmai.stores.sqlite.search_vectors import BYTE_ORDER, snapshot_vectors
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where
from wenmai.stores.vector_matrices import VectorMatrices
from wenmai.stores.word_scores import CachedPostings, CachedScores

_WITHOUT_VECTOR = "SELECT id FROM search_entries WHERE partition = ? AND number IS NULL AND id > ? ORDER BY id LIMIT ?"


class SqliteSearch:
    """See :class:`wenmai.stores.contracts.Search`."""

    def __init__(self, connections: ConnectionThreads) -> None:
        self._connections = connections
        self._matrices = VectorMatrices(BYTE_ORDER)
        self._scores = CachedScores()
        self._postings = CachedPostings()
        self._matching = MatchingRows()

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_collection(scope, collection)
        if not entries:
            return
        owner = owner_of(scope, collection, shared)
        indexed = await asyncio.to_thread(_prepared, entries)
        await self._connections.write(lambda connection: search_index.index(connection, owner, entries, indexed))

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_collection(scope, collection)
        if not entries:
            return 0
        owner = owner_of(scope, collection, shared)
        await asyncio.to_thread(check_vectors, entries, None)
        return await self._connections.write(lambda connection: search_index.embed(connection, owner, entries))

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """See :meth:`wenmai.stores.contracts.Search.without_vector`."""
        check_collection(scope, collection)
        check_page(after, limit)
        owner = owner_of(scope, collection, shared)

        def work(connection: apsw.Connection) -> list[str]:
            partition = partition_of(connection, owner)
            rows = fetch(connection, _WITHOUT_VECTOR, (partition.row, after, limit)) if partition else []
            return [id_ for (id_,) in rows]

        return await self._connections.read(work)

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        check_collection(scope, collection)
        check_queries(queries)
        owner = owner_of(scope, collection, shared)

        def work(connection: apsw.Connection) -> list[list[Hit]]:
            partition = partition_of(connection, owner)
            if partition is None or not partition.entries:
                return [[] for _ in queries]
            check_query_lengths(queries, partition.dimension)
            asked = list(map(without_zeros, queries))
            vectors = None
            if partition.vectors and any(query.vector is not None for query in asked):
                vectors = snapshot_vectors(self._matrices, connection, partition.row, partition.state)
            matching = self._matching if shared else None
            reader = Reader(connection, partition, vectors, self._scores, self._postings, matching)
            return [reader.hits(query) for query in asked]

        return await self._connections.read(work)

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
        owner = owner_of(scope, collection, shared)
        if where is None:
            return await self._connections.write(lambda connection: search_index.remove(connection, owner, ids or ()))
        return await self._connections.write_in_batches(
            lambda connection, limit: search_index.remove_matching(connection, owner, where, limit)
        )

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """See :meth:`wenmai.stores.contracts.Search.size`."""
        check_collection(scope, collection)
        owner = owner_of(scope, collection, shared)
        partition = await self._connections.read(lambda connection: partition_of(connection, owner))
        return CollectionSize(partition.entries, partition.vectors) if partition else CollectionSize(0, 0)


def _prepared(entries: Sequence[SearchEntry]) -> list[Analysed]:
    """The last entry of each id as it is stored."""
    check_entries(entries, None)
    return analysed(entries)
