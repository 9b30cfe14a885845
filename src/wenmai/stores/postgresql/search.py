"""The search contract on PostgreSQL: an inverted index per scope and collection, and exact vector search in memory.

PostgreSQL's own text search has no statistics per owner and no Chinese analysis; our own postings are counted per
partition (scope and collection) and scored in the process. The vectors of a partition and the scores of the last
questions are kept there too, and each statement says whether they are still those of the database.
"""

import asyncio
from collections.abc import Sequence

from wenmai.scope import Scope
from wenmai.stores.postgresql.database import Database, unescape
from wenmai.stores.postgresql.search_entries import EntryRows, VectorRows, embed_entries, replace_entries
from wenmai.stores.postgresql.search_partitions import OWNER, Owner, forget_emptied, lock, lock_or_create
from wenmai.stores.postgresql.search_reading import Reader
from wenmai.stores.postgresql.search_removal import remove_ids, remove_matching
from wenmai.stores.search_values import (
    check_collection,
    check_dimension,
    check_entries,
    check_page,
    check_queries,
    check_removal,
    check_vectors,
)
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where

_SIZE = f"SELECT entries, vectors FROM search_partitions WHERE {OWNER}"
_WITHOUT_VECTOR = f"""
SELECT e.id FROM search_partitions part CROSS JOIN LATERAL (
  SELECT e.id FROM search_entries e
  WHERE e.partition = part.partition AND NOT e.embedded AND e.id > $6 ORDER BY e.id LIMIT $7
) e
WHERE {OWNER}"""


class PostgresqlSearch:
    """See :class:`wenmai.stores.contracts.Search`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._reader = Reader(database)

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        check_collection(scope, collection)
        if not entries:
            return
        rows = await asyncio.to_thread(_prepared, entries)
        async with self._database.transaction() as run:
            partition = await lock_or_create(run, _owner(scope, collection, shared))
            dimension = check_dimension(entries, partition.dimension)
            await replace_entries(run, partition, rows, dimension)

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Search.embed`."""
        check_collection(scope, collection)
        if not entries:
            return 0
        rows = await asyncio.to_thread(_vector_rows, entries)
        async with self._database.transaction() as run:
            partition = await lock(run, _owner(scope, collection, shared))
            if partition is None:
                return 0
            check_dimension(entries, partition.dimension)
            return await embed_entries(run, partition, rows)

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """See :meth:`wenmai.stores.contracts.Search.without_vector`."""
        check_collection(scope, collection)
        check_page(after, limit)
        rows = await self._database.fetch(_WITHOUT_VECTOR, *_owner(scope, collection, shared), after, limit)
        return [unescape(row["id"]) for row in rows]

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        check_collection(scope, collection)
        check_queries(queries)
        return await self._reader.hits(_owner(scope, collection, shared), queries) if queries else []

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
        async with self._database.transaction() as run:
            partition = await lock(run, _owner(scope, collection, shared))
            if partition is None:
                return 0
            if where is not None:
                removed = await remove_matching(run, partition, where)
            else:
                removed = await remove_ids(run, partition, list(dict.fromkeys(ids or ())))
            if removed:
                await forget_emptied(run, partition)
            return removed

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """See :meth:`wenmai.stores.contracts.Search.size`."""
        check_collection(scope, collection)
        rows = await self._database.fetch(_SIZE, *_owner(scope, collection, shared))
        return CollectionSize(*rows[0]) if rows else CollectionSize(0, 0)


def _prepared(entries: Sequence[SearchEntry]) -> EntryRows:
    """The last entry of each id as it is stored."""
    check_entries(entries, None)
    return EntryRows(list({entry.id: entry for entry in entries}.values()))


def _vector_rows(entries: Sequence[SearchEntry]) -> VectorRows:
    """The last vector of each id as it is stored."""
    check_vectors(entries, None)
    return VectorRows(list({entry.id: entry for entry in entries}.values()))


def _owner(scope: Scope, collection: str, shared: bool) -> Owner:  # noqa: FBT001 — private
    return scope.tenant_id, scope.site_id, "" if shared else scope.user_id, shared, collection
