"""The search contract on SQLite: an inverted index per scope and collection, and exact vector search.

FTS5 keeps its statistics over the whole table, so one tenant's words would move another's scores; postings of our
own are counted per partition (scope and collection). Vectors are compared one by one by sqlite-vec, in C.
"""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import apsw

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.base import BM25_B, BM25_K1, Hit, SearchEntry
from wenmai.stores.bm25 import fuse, idf
from wenmai.stores.sqlite.lanes import Lanes, fetch
from wenmai.text.cjk import query_terms, terms

QUERY_LIMIT = 500


class _Partition(NamedTuple):
    row: int
    dimension: int | None
    entries: int
    length: int


class SqliteSearch:
    """See :class:`wenmai.stores.base.Search`."""

    def __init__(self, lanes: Lanes) -> None:
        self._lanes = lanes

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.base.Search.index`."""
        counted = [(entry, Counter(terms(entry.text))) for entry in entries]
        await self._lanes.write(lambda connection: _index(connection, _owner(scope, collection, shared), counted))

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
        """See :meth:`wenmai.stores.base.Search.query`."""
        if text is None and vector is None:
            raise InvalidInput("text", None, "given, or a vector")
        if not 1 <= limit <= QUERY_LIMIT:
            raise InvalidInput("limit", limit, f"between 1 and {QUERY_LIMIT}")
        wanted = None if text is None else query_terms(text)
        owner = _owner(scope, collection, shared)

        def work(connection: apsw.Connection) -> list[Hit]:
            connection.execute("BEGIN")  # one snapshot for all the statements of the query
            try:
                partition = _partition(connection, owner)
                if partition is None or partition.entries == 0:
                    return []
                return _Query(connection, partition, where or {}).hits(wanted, vector, limit)
            finally:
                connection.execute("COMMIT")

        return await self._lanes.read(work)

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.base.Search.remove`."""

        def work(connection: apsw.Connection) -> int:
            partition = _partition(connection, _owner(scope, collection, shared))
            return 0 if partition is None else _remove(connection, partition.row, ids)

        return await self._lanes.write(work)

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.base.Search.count`."""
        owner = _owner(scope, collection, shared)
        partition = await self._lanes.read(lambda connection: _partition(connection, owner))
        return partition.entries if partition else 0


_Owner = tuple[str, str, str, int, str]


def _owner(scope: Scope, collection: str, shared: bool) -> _Owner:  # noqa: FBT001 — private
    return scope.tenant_id, scope.site_id, "" if shared else scope.user_id, int(shared), collection


def _partition(connection: apsw.Connection, owner: _Owner) -> _Partition | None:
    rows = fetch(
        connection,
        "SELECT partition, dimension, entries, length FROM search_partitions "
        "WHERE tenant_id = ? AND site_id = ? AND user_id = ? AND shared = ? AND collection = ?",
        owner,
    )
    return _Partition(*rows[0]) if rows else None


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
        (partition, entry.id, counts.total(), None if entry.vector is None else _blob(entry.vector)),
    )
    row = connection.last_insert_rowid()
    connection.executemany(
        "INSERT INTO search_postings (partition, term, entry, count) VALUES (?, ?, ?, ?)",
        [(partition, term, row, count) for term, count in counts.items()],
    )
    connection.executemany(
        "INSERT OR IGNORE INTO search_fields (partition, field, value, entry) VALUES (?, ?, ?, ?)",
        [(partition, field, value, row) for field, values in entry.fields.items() for value in _values(values)],
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


def _values(values: str | Sequence[str]) -> Sequence[str]:
    return [values] if isinstance(values, str) else values


def _blob(vector: Sequence[float]) -> bytes:
    return struct.pack(f"{len(vector)}f", *vector)


class _Query:
    """One query over one partition, within one read transaction."""

    def __init__(
        self, connection: apsw.Connection, partition: _Partition, where: Mapping[str, str | Sequence[str]]
    ) -> None:
        self._connection = connection
        self._partition = partition
        self._conditions = ["e.partition = ?"]
        self._bindings: list[Any] = [partition.row]
        for field, values in where.items():
            allowed = _values(values)
            self._conditions.append(
                "e.entry IN (SELECT entry FROM search_fields WHERE partition = ? AND field = ? "
                f"AND value IN ({', '.join('?' * len(allowed))}))"
            )
            self._bindings.extend((partition.row, field, *allowed))

    def hits(self, wanted: list[str] | None, vector: Sequence[float] | None, limit: int) -> list[Hit]:
        blob = None
        if vector is not None:
            if self._partition.dimension is not None and len(vector) != self._partition.dimension:
                raise InvalidInput("vector", len(vector), f"of the collection's length, {self._partition.dimension}")
            blob = _blob(vector)
        weights = self._weights(wanted or [])
        by_words = self._lexical(weights, limit)
        by_meaning = self._similar(blob, limit)
        ids = fuse([list(by_words), list(by_meaning)])[:limit]
        lexical = by_words | self._lexical(weights, limit, [key for key in ids if key not in by_words])
        similar = by_meaning | self._similar(blob, limit, [key for key in ids if key not in by_meaning])
        total = sum(weights.values())
        return [
            Hit(
                id=key,
                lexical=lexical.get(key, (0.0, 0.0))[0],
                coverage=min(1.0, lexical.get(key, (0.0, 0.0))[1] / total) if total else 0.0,
                similarity=similar.get(key),
            )
            for key in ids
        ]

    def _weights(self, wanted: list[str]) -> dict[str, float]:
        """Each term's inverse document frequency within the partition."""
        entries = self._partition.entries
        weights = {}
        for term in wanted:
            rows = fetch(
                self._connection,
                "SELECT count(*) FROM search_postings WHERE partition = ? AND term = ?",
                (self._partition.row, term),
            )
            frequency = rows[0][0]
            weights[term] = idf(entries, frequency)
        return weights

    def _lexical(
        self, weights: Mapping[str, float], limit: int, ids: Sequence[str] | None = None
    ) -> dict[str, tuple[float, float]]:
        """BM25 and covered weight by id, best first; only of the given ids if any are given."""
        if not weights or ids == []:
            return {}
        average = self._partition.length / self._partition.entries
        chosen, chosen_bindings = _among(ids)
        sql = f"""
WITH wanted (term, weight) AS (VALUES {", ".join(["(?, ?)"] * len(weights))})
SELECT e.id,
  sum(w.weight * p.count * {BM25_K1 + 1}
      / (p.count + {BM25_K1} * ({1 - BM25_B} + {BM25_B} * e.length / ?))) AS score,
  sum(w.weight)
FROM wanted w
JOIN search_postings p ON p.partition = ? AND p.term = w.term
JOIN search_entries e ON e.entry = p.entry
WHERE {" AND ".join([*self._conditions, chosen])}
GROUP BY e.entry ORDER BY score DESC, e.id LIMIT ?"""
        rows = fetch(
            self._connection,
            sql,
            (
                *(value for pair in weights.items() for value in pair),
                average,
                self._partition.row,
                *self._bindings,
                *chosen_bindings,
                limit,
            ),
        )
        return {key: (score, covered) for key, score, covered in rows}

    def _similar(self, blob: bytes | None, limit: int, ids: Sequence[str] | None = None) -> dict[str, float]:
        """Cosine by id, best first; only of the given ids if any are given."""
        if blob is None or ids == []:
            return {}
        chosen, chosen_bindings = _among(ids)
        rows = fetch(
            self._connection,
            f"SELECT e.id, 1 - vec_distance_cosine(e.vector, ?) AS similarity FROM search_entries e "
            f"WHERE {' AND '.join([*self._conditions, chosen])} AND e.vector IS NOT NULL "
            "ORDER BY similarity DESC, e.id LIMIT ?",
            (blob, *self._bindings, *chosen_bindings, limit),
        )
        return dict(rows)


def _among(ids: Sequence[str] | None) -> tuple[str, Sequence[str]]:
    return ("1", ()) if ids is None else (f"e.id IN ({', '.join('?' * len(ids))})", ids)
