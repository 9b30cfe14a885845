"""The search contract on PostgreSQL: an inverted index per scope and collection, and exact search by pgvector.

PostgreSQL's own text search has no statistics per owner and no Chinese analysis; our own postings are counted per
partition (scope and collection), and a query is one statement on one snapshot.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.bm25 import fuse
from wenmai.stores.contracts import BM25_B, BM25_K1, Hit, SearchEntry
from wenmai.stores.postgresql.database import Database, Row, Run, unescape
from wenmai.stores.validation import check_range
from wenmai.text.cjk import query_terms, terms

QUERY_LIMIT = 500
LONGEST_TERM = 200
"""Characters; a longer term is indexed by its prefix and a digest, so that it fits into an index entry."""

INDEXED_PREFIX = 64
"""Length of the indexed prefix of a field's value (see the table definitions)."""

_OWNER = "tenant_id = $1 AND site_id = $2 AND user_id = $3 AND shared = $4 AND collection = $5"
_COUNT = f"SELECT entries FROM search_partitions WHERE {_OWNER}"
_LOCK = f"SELECT partition, dimension FROM search_partitions WHERE {_OWNER} FOR UPDATE"
_CREATE = """
INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, entries, length)
VALUES ($1, $2, $3, $4, $5, 0, 0) ON CONFLICT DO NOTHING"""
_REMOVE = """
WITH gone AS (DELETE FROM search_entries WHERE partition = $1 AND id = ANY($2::text[]) RETURNING entry, length),
  postings AS (DELETE FROM search_postings p USING gone WHERE p.entry = gone.entry),
  fields AS (DELETE FROM search_fields f USING gone WHERE f.entry = gone.entry),
  counted AS (SELECT count(*) AS entries, coalesce(sum(length), 0)::bigint AS length FROM gone)
UPDATE search_partitions p SET entries = p.entries - counted.entries, length = p.length - counted.length
FROM counted WHERE p.partition = $1 RETURNING counted.entries"""
_INSERT = """
WITH fresh AS (
    INSERT INTO search_entries (partition, id, length, vector)
    SELECT $1, u.id, u.length, u.vector::vector
    FROM unnest($2::text[], $3::bigint[], $4::text[]) AS u (id, length, vector)
    RETURNING id, entry, length),
  postings AS (
    INSERT INTO search_postings (partition, term, entry, count)
    SELECT $1, u.term, fresh.entry, u.count
    FROM unnest($5::text[], $6::text[], $7::bigint[]) AS u (id, term, count) JOIN fresh USING (id)),
  fields AS (
    INSERT INTO search_fields (partition, field, value, entry)
    SELECT $1, u.field, u.value, fresh.entry
    FROM unnest($8::text[], $9::text[], $10::text[]) AS u (id, field, value) JOIN fresh USING (id))
UPDATE search_partitions SET dimension = $11, entries = entries + (SELECT count(*) FROM fresh),
  length = length + (SELECT coalesce(sum(length), 0)::bigint FROM fresh)
WHERE partition = $1 RETURNING entries"""

# $6 terms, $7 vector, $8 its length, $9 limit; for each filter its field, the beginnings of its values, its values.
# The terms drive the join, whatever statistics the planner had: the postings of a term are a LATERAL that OFFSET 0
# fences. Sums are in the order of the terms, so that equal entries score equally to the last bit.
_QUERY = """
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {owner}),
sought AS MATERIALIZED (SELECT $7::text::vector AS vector),
wanted AS MATERIALIZED (
  SELECT u.term, ln(1 + (part.entries - held.entries + 0.5::float8) / (held.entries + 0.5::float8)) AS weight
  FROM part, unnest($6::text[]) AS u (term), LATERAL (
    SELECT count(*) AS entries FROM search_postings p WHERE p.partition = part.partition AND p.term = u.term
  ) held
),
scored AS MATERIALIZED (
  SELECT e.id, sum(w.weight ORDER BY w.term) AS covered, sum(
      w.weight * p.count * {k1_1} / (p.count + {k1} * ({b_1} + {b} * e.length * part.entries / part.length))
      ORDER BY w.term
    ) AS score
  FROM part CROSS JOIN wanted w
  CROSS JOIN LATERAL (
    SELECT p.entry, p.count FROM search_postings p WHERE p.partition = part.partition AND p.term = w.term OFFSET 0
  ) p
  JOIN search_entries e ON e.entry = p.entry
  WHERE TRUE{of_words}
  GROUP BY e.entry
),
by_words AS (
  SELECT s.id, row_number() OVER (ORDER BY s.score DESC, s.id) AS place
  FROM (SELECT * FROM scored ORDER BY score DESC, id LIMIT $9) s
),
by_vector AS (
  SELECT s.id, row_number() OVER (ORDER BY s.similarity DESC, s.id) AS place
  FROM (
    SELECT e.id, {similarity} AS similarity FROM part JOIN search_entries e ON e.partition = part.partition
    WHERE $7::text IS NOT NULL AND part.dimension = $8 AND e.vector IS NOT NULL{of_vector}
    ORDER BY similarity DESC, id LIMIT $9
  ) s
)
SELECT part.dimension, found.id, found.by_words, found.by_vector, s.score, s.covered / total.weight AS coverage,
  (SELECT {similarity} FROM search_entries e
    WHERE e.partition = part.partition AND e.id = found.id AND part.dimension = $8) AS similarity
FROM part CROSS JOIN (SELECT sum(weight ORDER BY term) AS weight FROM wanted) total
LEFT JOIN (
  SELECT id, w.place AS by_words, m.place AS by_vector FROM by_words w FULL JOIN by_vector m USING (id)
) found ON TRUE
LEFT JOIN scored s ON s.id = found.id"""
_SIMILARITY = """coalesce(nullif(1 - (e.vector <=> (SELECT vector FROM sought)), 'NaN'),
      CASE WHEN e.vector IS NOT NULL THEN 0 END)"""
_HAS = """FROM search_fields f WHERE f.entry = e.entry AND f.partition = e.partition AND f.field = ${0}
    AND left(f.value, {1}) = ANY(${2}::text[]) AND f.value = ANY(${3}::text[])"""
# By words, the terms drive the join and each matching entry is looked up: a subquery with a limit is never turned into
# a join. By vector, a selective field value may drive it.
_OF_WORDS = f"""
  AND (SELECT TRUE {_HAS} LIMIT 1)"""
_OF_VECTOR = f"""
  AND EXISTS (SELECT {_HAS})"""


class PostgresqlSearch:
    """See :class:`wenmai.stores.contracts.Search`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """See :meth:`wenmai.stores.contracts.Search.index`."""
        if not entries:
            return
        owner = _owner(scope, collection, shared)
        latest = {entry.id: entry for entry in entries}
        rows = await asyncio.to_thread(_EntryRows, list(latest.values()))
        lengths = {len(entry.vector) for entry in entries if entry.vector is not None}
        async with self._database.transaction() as run:
            partition, dimension = await _open_partition(run, owner)
            known = dimension or next(iter(lengths), None)
            if lengths - {known}:
                raise InvalidInput("vector", sorted(lengths), f"of the collection's length, {known}")
            await run(_REMOVE, partition, list(latest))
            await run(_INSERT, partition, *rows.columns, known)

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
        check_range("limit", limit, 1, QUERY_LIMIT)
        wanted = [] if text is None else [_index_term(term) for term in query_terms(text)]
        marks, values = _filters(where or {}, first=10)
        length = None if vector is None else len(vector)
        arguments = (wanted, None if vector is None else _vector(vector), length, limit, *values)
        rows = await self._database.fetch(_query(marks), *_owner(scope, collection, shared), *arguments)
        if rows and length is not None and rows[0]["dimension"] not in (None, length):
            raise InvalidInput("vector", length, f"of the collection's length, {rows[0]['dimension']}")
        return _hits(rows, limit)

    async def remove(self, scope: Scope, collection: str, ids: Sequence[str], *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.remove`."""
        async with self._database.transaction() as run:
            locked = await run(_LOCK, *_owner(scope, collection, shared))
            if not locked:
                return 0
            removed: int = (await run(_REMOVE, locked[0]["partition"], list(ids)))[0]["entries"]
        return removed

    async def count(self, scope: Scope, collection: str, *, shared: bool = False) -> int:
        """See :meth:`wenmai.stores.contracts.Search.count`."""
        rows = await self._database.fetch(_COUNT, *_owner(scope, collection, shared))
        return rows[0]["entries"] if rows else 0


_Owner = tuple[str, str, str, bool, str]


def _owner(scope: Scope, collection: str, shared: bool) -> _Owner:  # noqa: FBT001 — private
    return scope.tenant_id, scope.site_id, "" if shared else scope.user_id, shared, collection


async def _open_partition(run: Run, owner: _Owner) -> tuple[int, int | None]:
    """Lock the partition, created if needed, until the transaction ends; return it and its vector dimension."""
    locked = await run(_LOCK, *owner)
    if not locked:
        await run(_CREATE, *owner)
        locked = await run(_LOCK, *owner)
    return locked[0]["partition"], locked[0]["dimension"]


class _EntryRows:
    """Arrays for the insert: of entries, of postings and of fields."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        counted = [(entry, Counter(map(_index_term, terms(entry.text)))) for entry in entries]
        postings = [(entry.id, *posting) for entry, counts in counted for posting in counts.items()]
        fields = [
            (entry.id, field, value)
            for entry in entries
            for field, values in entry.fields.items()
            for value in dict.fromkeys(_values(values))
        ]
        self.columns: list[list[Any]] = [
            [entry.id for entry in entries],
            [counts.total() for _, counts in counted],
            [None if entry.vector is None else _vector(entry.vector) for entry in entries],
            *([row[column] for row in postings] for column in range(3)),
            *([row[column] for row in fields] for column in range(3)),
        ]


def _index_term(term: str) -> str:
    if len(term) <= LONGEST_TERM:
        return term
    return term[:LONGEST_TERM] + sha256(term.encode()).hexdigest()


def _vector(vector: Sequence[float]) -> str:
    return str([float(x) for x in vector])


def _values(values: str | Sequence[str]) -> Sequence[str]:
    return [values] if isinstance(values, str) else values


def _filters(where: Mapping[str, str | Sequence[str]], *, first: int) -> tuple[list[tuple[int, ...]], list[Any]]:
    """The format arguments of each condition, with placeholders from ``first`` on, and the values to bind."""
    marks: list[tuple[int, ...]] = []
    bound: list[Any] = []
    for field, values in where.items():
        allowed = list(_values(values))
        mark = first + len(bound)
        marks.append((mark, INDEXED_PREFIX, mark + 1, mark + 2))
        bound += [field, [value[:INDEXED_PREFIX] for value in allowed], allowed]
    return marks, bound


def _query(marks: Sequence[tuple[int, ...]]) -> str:
    return _QUERY.format(
        owner=_OWNER,
        of_words="".join(_OF_WORDS.format(*each) for each in marks),
        of_vector="".join(_OF_VECTOR.format(*each) for each in marks),
        similarity=_SIMILARITY,
        k1=f"{BM25_K1}::float8",
        k1_1=f"{BM25_K1 + 1}::float8",
        b=f"{BM25_B}::float8",
        b_1=f"{1 - BM25_B}::float8",
    )


def _hits(rows: Sequence[Row], limit: int) -> list[Hit]:
    """The hits in the order of the fusion; a row without an id means that nothing was found."""
    found = {unescape(row["id"]): row for row in rows if row["id"] is not None}
    rankings = [
        sorted((id_ for id_, row in found.items() if row[by] is not None), key=lambda id_: found[id_][by])
        for by in ("by_words", "by_vector")
    ]
    return [
        Hit(
            id=id_,
            lexical=found[id_]["score"] or 0.0,
            coverage=min(1.0, found[id_]["coverage"] or 0.0),
            similarity=found[id_]["similarity"],
        )
        for id_ in fuse(rankings)[:limit]
    ]
