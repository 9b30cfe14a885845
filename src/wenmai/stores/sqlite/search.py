"""The search contract on SQLite: an inverted index per scope and collection, and exact vector search.

FTS5 keeps its statistics over the whole table, so one tenant's texts would change another's scores; our own postings
are counted per partition (scope and collection). sqlite-vec compares vectors one by one, in C.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence

import apsw

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.contracts import Hit, SearchEntry
from wenmai.stores.sqlite.connection_threads import ConnectionThreads, fetch
from wenmai.stores.sqlite.search_query import Partition, Query, to_blob, values_of
from wenmai.text.cjk import query_terms, terms

QUERY_LIMIT = 500


class SqliteSearch:
    """See :class:`wenmai.stores.contracts.Search`."""

    def __init__(self, connections: ConnectionThreads) -> None:
        self._connections = connections

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        counted = await asyncio.to_thread(lambda: [(entry, Counter(terms(entry.text))) for entry in entries])
        await self._connections.write(lambda connection: _index(connection, _owner(scope, collection, shared), counted))

    async def query(
        self,
        scope: Scope,
        collection: str,
        *,
        text: str | None = None,
        vector: Sequence[float] | None = None,
        where: Mapping[str, str | Sequence[str]] | None = None,
        limit: int = 10,
        shared: bool = False,
    ) -> list[Hit]:
        """See :meth:`wenmai.stores.contracts.Search.query`."""
        if text is None and vector is None:
            raise InvalidInput("text", None, "given, or a vector")
        if not 1 <= limit <= QUERY_LIMIT:
            raise InvalidInput("limit", limit, f"between 1 and {QUERY_LIMIT}")
        wanted = None if text is None else query_terms(text)
        owner = _owner(scope, collection, shared)

        def work(connection: apsw.Connection) -> list[Hit]:
            partition = _partition(connection, owner)
            if partition is None or partition.entries == 0:
                return []
            return Query(connection, partition, where or {}).hits(wanted, vector, limit)

        return await self._connections.read(work)

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.remove`."""

        def work(connection: apsw.Connection) -> int:
            partition = _partition(connection, _owner(scope, collection, shared))
            return 0 if partition is None else _remove(connection, partition.row, ids)

        return await self._connections.write(work)

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.count`."""
        owner = _owner(scope, collection, shared)
        partition = await self._connections.read(lambda connection: _partition(connection, owner))
        return partition.entries if partition else 0


_Owner = tuple[str, str, str, int, str]


def _owner(scope: Scope, collection: str, shared: bool) -> _Owner:  # noqa: FBT001 — private
    return scope.tenant_id, scope.site_id, "" if shared else scope.user_id, int(shared), collection


def _partition(connection: apsw.Connection, owner: _Owner) -> Partition | None:
    rows = fetch(
        connection,
        "SELECT partition, dimension, entries, length FROM search_partitions "
        "WHERE tenant_id = ? AND site_id = ? AND user_id = ? AND shared = ? AND collection = ?",
        owner,
    )
    return Partition(*rows[0]) if rows else None


def _index(connection: apsw.Connection, owner: _Owner, counted: Sequence[tuple[SearchEntry, Counter[str]]]) -> None:
    partition = _partition(connection, owner)
    lengths = {len(entry.vector) for entry, _ in counted if entry.vector is not None}
    known = partition.dimension if partition and partition.dimension else next(iter(lengths), None)
    if lengths - {known}:
        raise InvalidInput("vector", sorted(lengths), f"of the collection's length, {known}")
    if partition is None:
        connection.execute(
            "INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, dimension, entries, "
            "length) VALUES (?, ?, ?, ?, ?, ?, 0, 0)",
            (*owner, known),
        )
        row = connection.last_insert_rowid()
    else:
        row = partition.row
    _remove(connection, row, [entry.id for entry, _ in counted])
    latest = {entry.id: (entry, counts) for entry, counts in counted}
    for entry, counts in latest.values():
        _insert(connection, row, entry, counts)
    connection.execute(
        "UPDATE search_partitions SET dimension = ?, entries = entries + ?, length = length + ? WHERE partition = ?",
        (known, len(latest), sum(counts.total() for _, counts in latest.values()), row),
    )


def _insert(connection: apsw.Connection, partition: int, entry: SearchEntry, counts: Counter[str]) -> None:
    connection.execute(
        "INSERT INTO search_entries (partition, id, length, vector) VALUES (?, ?, ?, ?)",
        (partition, entry.id, counts.total(), None if entry.vector is None else to_blob(entry.vector)),
    )
    row = connection.last_insert_rowid()
    connection.executemany(
        "INSERT INTO search_postings (partition, term, entry, count) VALUES (?, ?, ?, ?)",
        [(partition, term, row, count) for term, count in counts.items()],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO search_fields (partition, field, value, entry) VALUES (?, ?, ?, ?)",
        [(partition, field, value, row) for field, values in entry.fields.items() for value in values_of(values)],
    )


def _remove(connection: apsw.Connection, partition: int, ids: Sequence[str]) -> int:
    removed = length = 0
    for entry_id in dict.fromkeys(ids):
        found = fetch(
            connection,
            "DELETE FROM search_entries WHERE partition = ? AND id = ? RETURNING entry, length",
            (partition, entry_id),
        )
        for row, entry_length in found:
            connection.execute("DELETE FROM search_postings WHERE entry = ?", (row,))
            connection.execute("DELETE FROM search_fields WHERE entry = ?", (row,))
            removed += 1
            length += entry_length
    connection.execute(
        "UPDATE search_partitions SET entries = entries - ?, length = length - ? WHERE partition = ?",
        (removed, length, partition),
    )
    return removed
