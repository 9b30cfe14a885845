"""Entries of a search index, and vectors that arrive later.

The statements run in a transaction that has locked the partition, so the numbers of a partition's vectors are in the
order of their commits.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from wenmai.stores.postgresql.database import Run
from wenmai.stores.postgresql.search_filters import sort_key
from wenmai.stores.postgresql.search_partitions import Partition
from wenmai.stores.postgresql.search_terms import index_term
from wenmai.stores.postgresql.search_vectors import BYTE_ORDER
from wenmai.stores.search_values import text_digest, values_of
from wenmai.stores.structs import SearchEntry
from wenmai.stores.vector_matrix import to_bytes
from wenmai.text.cjk import terms

_CLEAR = """
WITH old AS (SELECT entry FROM search_entries WHERE partition = $1 AND id = ANY ($2::text[])),
  postings AS (DELETE FROM search_postings p USING old WHERE p.entry = old.entry)
DELETE FROM search_fields f USING old WHERE f.entry = old.entry"""
"""Prepares the entries with these ids to be replaced."""

# $2 to $6 the entries, $7 to $10 postings, $11 to $13 fields, $14 the dimension. An entry keeps its number. A term's
# postings lie together: until the table is vacuumed, a search reads the page of each.
_INSERT = """
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::bytea[])
    AS u (id, length, digest, fields, vector)
),
old AS MATERIALIZED (
  SELECT e.id, e.entry, e.length, e.embedded, e.embedded AND g.vector IS NULL AND e.digest = g.digest AS kept
  FROM given g CROSS JOIN LATERAL (
    SELECT * FROM search_entries e WHERE e.partition = $1 AND e.id = g.id OFFSET 0
  ) e
),
fresh AS (
  INSERT INTO search_entries AS e (partition, id, length, digest, fields, embedded)
  SELECT $1, g.id, g.length, g.digest, g.fields::json, g.vector IS NOT NULL OR coalesce(o.kept, FALSE)
  FROM given g LEFT JOIN old o USING (id)
  ON CONFLICT (partition, id) DO UPDATE SET
    length = excluded.length, digest = excluded.digest, fields = excluded.fields, embedded = excluded.embedded
  RETURNING e.id, e.entry, e.embedded
),
dropped AS (
  DELETE FROM search_vectors v USING old o JOIN given g USING (id)
  WHERE v.entry = o.entry AND NOT o.kept AND g.vector IS NULL
),
vectors AS (
  INSERT INTO search_vectors (partition, entry, vector)
  SELECT $1, f.entry, g.vector FROM given g JOIN fresh f USING (id) WHERE g.vector IS NOT NULL
  ON CONFLICT (entry) DO UPDATE SET number = DEFAULT, vector = excluded.vector
),
postings AS (
  INSERT INTO search_postings (partition, term, entry, count, length)
  SELECT $1, u.term, f.entry, u.count, u.length
  FROM unnest($7::text[], $8::text[], $9::integer[], $10::integer[]) AS u (id, term, count, length)
  JOIN fresh f USING (id)
  ORDER BY u.term, f.entry
),
fields AS (
  INSERT INTO search_fields (partition, field, sort_key, entry)
  SELECT $1, u.field, u.sort_key, f.entry
  FROM unnest($11::text[], $12::text[], $13::text[]) AS u (id, field, sort_key) JOIN fresh f USING (id)
),
new_sums AS (
  SELECT count(*) AS entries, coalesce(sum(g.length), 0)::bigint AS length,
    count(*) FILTER (WHERE f.embedded) AS vectors
  FROM given g JOIN fresh f USING (id)
),
old_sums AS (
  SELECT count(*) AS entries, coalesce(sum(length), 0)::bigint AS length, count(*) FILTER (WHERE embedded) AS vectors
  FROM old
)
UPDATE search_partitions p SET dimension = $14, changes = p.changes + 1,
  entries = p.entries + n.entries - o.entries, length = p.length + n.length - o.length,
  vectors = p.vectors + n.vectors - o.vectors
FROM new_sums n, old_sums o WHERE p.partition = $1"""

_EMBED = """
WITH given AS MATERIALIZED (
  SELECT e.entry, e.embedded, u.vector
  FROM unnest($2::text[], $3::bytea[], $4::bytea[]) AS u (id, digest, vector) CROSS JOIN LATERAL (
    SELECT * FROM search_entries e WHERE e.partition = $1 AND e.id = u.id AND e.digest = u.digest OFFSET 0
  ) e
),
entries AS (UPDATE search_entries e SET embedded = TRUE FROM given g WHERE e.entry = g.entry AND NOT g.embedded),
vectors AS (
  INSERT INTO search_vectors (partition, entry, vector) SELECT $1, g.entry, g.vector FROM given g
  ON CONFLICT (entry) DO UPDATE SET number = DEFAULT, vector = excluded.vector
),
sums AS (SELECT count(*) AS given, count(*) FILTER (WHERE NOT embedded) AS vectors FROM given)
UPDATE search_partitions p SET dimension = $5, changes = p.changes + 1, vectors = p.vectors + sums.vectors
FROM sums WHERE p.partition = $1 AND sums.given > 0 RETURNING sums.given"""


class EntryRows:
    """Arrays for the insert of entries with different ids: of the entries, of postings and of fields."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        counted = [(entry, Counter(map(index_term, terms(entry.text)))) for entry in entries]
        postings = [(entry.id, *posting, counts.total()) for entry, counts in counted for posting in counts.items()]
        fields = [
            (entry.id, index_term(field), key)
            for entry in entries
            for field, values in entry.fields.items()
            for key in dict.fromkeys(map(sort_key, values_of(values)))
        ]
        self.ids: list[str] = [entry.id for entry in entries]
        self.columns: list[list[Any]] = [
            self.ids,
            [counts.total() for _, counts in counted],
            [text_digest(entry.text) for entry in entries],
            [msgspec.json.encode(dict(entry.fields)).decode() for entry in entries],
            [None if entry.vector is None else to_bytes(entry.vector, BYTE_ORDER) for entry in entries],
            *([row[column] for row in postings] for column in range(4)),
            *([row[column] for row in fields] for column in range(3)),
        ]


class VectorRows:
    """Arrays for the vectors, of one length, of entries with different ids."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        self.dimension = len(entries[0].vector or ())
        self.columns: list[list[Any]] = [
            [entry.id for entry in entries],
            [text_digest(entry.text) for entry in entries],
            [to_bytes(entry.vector or (), BYTE_ORDER) for entry in entries],
        ]


async def replace_entries(run: Run, partition: Partition, rows: EntryRows, dimension: int | None) -> None:
    """Add or replace the entries; ``dimension`` is that of the collection with them."""
    await run(_CLEAR, partition.number, rows.ids)
    await run(_INSERT, partition.number, *rows.columns, dimension)


async def embed_entries(run: Run, partition: Partition, rows: VectorRows) -> int:
    """Give those entries their vector that are indexed with the same text; return how many."""
    given = await run(_EMBED, partition.number, *rows.columns, rows.dimension)
    return given[0]["given"] if given else 0
