"""Entries of a search index, and vectors that arrive later.

The statements run in a transaction that has locked the partition, so the numbers of a partition's vectors are in the
order of their commits.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec

from wenmai.stores.postgresql.database import Run, unescape
from wenmai.stores.postgresql.search_filters import sort_key
from wenmai.stores.postgresql.search_partitions import Partition
from wenmai.stores.postgresql.search_terms import REMOVED_POSTINGS, SEPARATOR, index_term
from wenmai.stores.postgresql.search_vectors import BYTE_ORDER
from wenmai.stores.search_values import text_digest, values_of
from wenmai.stores.structs import SearchEntry
from wenmai.stores.vector_matrix import to_bytes
from wenmai.stores.word_scores import by_block
from wenmai.text.cjk import terms

_CLEAR = f"""
WITH gone AS MATERIALIZED (
    SELECT id, entry, terms FROM search_entries WHERE partition = $1 AND id = ANY ($2::text[])
  ),
{REMOVED_POSTINGS},
  fields AS (DELETE FROM search_fields f USING gone WHERE f.entry = gone.entry)
SELECT id, entry FROM gone"""
"""Prepares the entries with these ids to be replaced, and returns those that exist."""

# $2 to $8 the entries, $9 to $11 postings, $12 to $14 fields, $15 the dimension, $16 the places. Postings are sorted,
# so that those of a term lie near to each other.
_INSERT = """
WITH given AS MATERIALIZED (
  SELECT * FROM unnest($2::text[], $3::bigint[], $4::bytea[], $5::text[], $6::text[], $7::bytea[], $8::bigint[])
    AS u (id, length, digest, fields, terms, vector, entry)
),
old AS MATERIALIZED (
  SELECT e.id, e.entry, e.length, e.embedded, e.embedded AND g.vector IS NULL AND e.digest = g.digest AS kept
  FROM given g CROSS JOIN LATERAL (
    SELECT * FROM search_entries e WHERE e.partition = $1 AND e.id = g.id OFFSET 0
  ) e
),
fresh AS (
  INSERT INTO search_entries AS e (entry, partition, id, length, digest, fields, terms, embedded)
  SELECT g.entry, $1, g.id, g.length, g.digest, g.fields::json, g.terms,
    g.vector IS NOT NULL OR coalesce(o.kept, FALSE)
  FROM given g LEFT JOIN old o USING (id)
  ON CONFLICT (partition, id) DO UPDATE SET length = excluded.length, digest = excluded.digest,
    fields = excluded.fields, terms = excluded.terms, embedded = excluded.embedded
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
  INSERT INTO search_postings AS p (partition, term, block, postings)
  SELECT $1, u.term, u.block, u.postings
  FROM unnest($9::text[], $10::bigint[], $11::bytea[]) AS u (term, block, postings)
  ORDER BY u.term, u.block
  ON CONFLICT (partition, term, block) DO UPDATE SET postings = p.postings || excluded.postings
),
fields AS (
  INSERT INTO search_fields (partition, field, sort_key, entry)
  SELECT $1, u.field, u.sort_key, f.entry
  FROM unnest($12::text[], $13::text[], $14::text[]) AS u (id, field, sort_key) JOIN fresh f USING (id)
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
UPDATE search_partitions p SET dimension = $15, places = $16, changes = p.changes + 1,
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
    """Arrays for the insert of entries with different ids."""

    def __init__(self, entries: Sequence[SearchEntry]) -> None:
        counted = [(entry, Counter(map(index_term, terms(entry.text)))) for entry in entries]
        fields = [
            (entry.id, index_term(field), key)
            for entry in entries
            for field, values in entry.fields.items()
            for key in dict.fromkeys(map(sort_key, values_of(values)))
        ]
        self.ids: list[str] = [entry.id for entry in entries]
        self._counts = [counts for _, counts in counted]
        self.entries: list[list[Any]] = [
            self.ids,
            [counts.total() for counts in self._counts],
            [text_digest(entry.text) for entry in entries],
            [msgspec.json.encode(dict(entry.fields)).decode() for entry in entries],
            [SEPARATOR.join(counts) for counts in self._counts],
            [None if entry.vector is None else to_bytes(entry.vector, BYTE_ORDER) for entry in entries],
        ]
        self.fields: list[list[Any]] = [[row[column] for row in fields] for column in range(3)]

    def postings(self, numbers: Sequence[int]) -> list[list[Any]]:
        """Arrays of the postings of the entries with these numbers: term, block, and the postings there."""
        words = [(entry, counts, counts.total()) for entry, counts in zip(numbers, self._counts, strict=True)]
        rows = [(term, block, own) for block, terms in by_block(words).items() for term, own in terms.items()]
        return [[row[column] for row in rows] for column in range(3)]


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
    replaced = {unescape(row["id"]): row["entry"] for row in await run(_CLEAR, partition.number, rows.ids)}
    places = count(partition.places + 1)
    numbers = [replaced.get(id_) or partition.entry(next(places)) for id_ in rows.ids]
    postings = await asyncio.to_thread(rows.postings, numbers)
    last = partition.places + len(rows.ids) - len(replaced)
    await run(_INSERT, partition.number, *rows.entries, numbers, *postings, *rows.fields, dimension, last)


async def embed_entries(run: Run, partition: Partition, rows: VectorRows) -> int:
    """Give those entries their vector that are indexed with the same text; return how many."""
    given = await run(_EMBED, partition.number, *rows.columns, rows.dimension)
    return given[0]["given"] if given else 0
