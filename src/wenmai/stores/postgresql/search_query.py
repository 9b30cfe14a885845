"""The statement of a search: several queries by words and by the numbers of vectors, on one snapshot.

Postings drive it: the postings of a term are a LATERAL that OFFSET 0 fences, so that the plan does not depend on
statistics. A posting has the length of its entry; an entry's row is read only if it is among the best.

The best by words include all that equal the last of them. Finding those needs all scores sorted, which takes longer
than keeping some more than the best, so that is tried first (:data:`SPARE`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence

from wenmai.stores.bm25 import UNIT
from wenmai.stores.contracts import BM25_B, BM25_K1, SearchQuery
from wenmai.stores.postgresql.database import Row, escape
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHES, filters_json
from wenmai.stores.postgresql.search_partitions import OWNER, STATE
from wenmai.stores.postgresql.search_terms import index_term
from wenmai.text.cjk import query_terms

_UNIT = f"{1 / UNIT}::float8"

_WEIGHT = f"""round({_UNIT} * ln(1 + (part.entries - held.entries + 0.5::float8) / (held.entries + 0.5::float8)))"""

_SCORE = f"""floor(w.scale * p.count
      / (p.count + {BM25_K1 * (1 - BM25_B)}::float8 + part.by_length * p.length))"""

SPARE = 50
"""Entries by words that are ranked beyond the best, to find what equals the last of them."""

# $6 queries, $7 filters.
QUERY = f"""
WITH part AS MATERIALIZED (
  SELECT partition, entries, vectors, dimension, changes,
    {BM25_K1 * BM25_B}::float8 * entries / greatest(length, 1) AS by_length
  FROM search_partitions WHERE {OWNER}
),
asked AS MATERIALIZED (
  SELECT q.* FROM jsonb_to_recordset($6::text::jsonb)
    AS q (query integer, terms text[], best bigint, reach bigint, filtered boolean, ids text[], vectors bigint[])
),
filters AS MATERIALIZED ({FILTERS.format("$7")}
),
weighted AS MATERIALIZED (
  SELECT q.query, t.term, {_WEIGHT} AS weight, {_WEIGHT} * {BM25_K1 + 1}::float8 AS scale
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL unnest(q.terms) AS t (term)
  CROSS JOIN LATERAL (
    SELECT count(*) AS entries FROM search_postings p WHERE p.partition = part.partition AND p.term = t.term
  ) held
),
totals AS MATERIALIZED (
  SELECT q.query, (SELECT sum(w.weight) FROM weighted w WHERE w.query = q.query) AS weight FROM asked q
),
by_words AS MATERIALIZED (
  SELECT q.query, s.entry, s.score, s.covered
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL (
    SELECT g.entry, g.score, g.covered
    FROM (
      SELECT p.entry, sum({_SCORE}) AS score, sum(w.weight) AS covered
      FROM weighted w CROSS JOIN LATERAL (
        SELECT p.entry, p.count, p.length FROM search_postings p
        WHERE p.partition = part.partition AND p.term = w.term OFFSET 0
      ) p
      WHERE w.query = q.query GROUP BY p.entry ORDER BY score DESC LIMIT q.reach
    ) g
    WHERE NOT q.filtered OR {MATCHES.format(query="q.query", entry="g.entry")}
    ORDER BY g.score DESC FETCH FIRST (q.best) ROWS WITH TIES
  ) s
  WHERE q.ids IS NULL
),
named AS MATERIALIZED (
  SELECT q.query, e.entry
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL unnest(q.ids) AS u (id) CROSS JOIN LATERAL (
    SELECT e.entry FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
  ) e
  WHERE NOT q.filtered OR {MATCHES.format(query="q.query", entry="e.entry")}
  UNION
  SELECT q.query, v.entry
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL unnest(q.vectors) AS u (number) CROSS JOIN LATERAL (
    SELECT v.entry FROM search_vectors v WHERE v.partition = part.partition AND v.number = u.number OFFSET 0
  ) v
  EXCEPT SELECT w.query, w.entry FROM by_words w
),
found AS (
  SELECT * FROM by_words
  UNION ALL
  SELECT n.query, s.*
  FROM part CROSS JOIN (
    SELECT query, array_agg(entry) AS entries FROM named GROUP BY query
  ) n CROSS JOIN LATERAL (
    SELECT u.entry, sum(u.score) AS score, sum(u.weight) AS covered
    FROM (
      SELECT entry, NULL::float8 AS score, NULL::float8 AS weight FROM unnest(n.entries) AS e (entry)
      UNION ALL
      SELECT p.entry, {_SCORE}, w.weight
      FROM weighted w CROSS JOIN LATERAL (
        SELECT p.entry, p.count, p.length FROM search_postings p
        WHERE p.partition = part.partition AND p.term = w.term AND p.entry = ANY (n.entries) OFFSET 0
      ) p
      WHERE w.query = n.query
    ) u
    GROUP BY u.entry
  ) s
)
SELECT {STATE}, h.query, h.id, h.fields, h.number, h.score, h.coverage
FROM part LEFT JOIN (
  SELECT f.query, e.id, e.fields, v.number, f.score / {_UNIT} AS score,
    f.covered / (SELECT t.weight FROM totals t WHERE t.query = f.query) AS coverage
  FROM found f
  CROSS JOIN LATERAL (SELECT e.id, e.fields FROM search_entries e WHERE e.entry = f.entry OFFSET 0) e
  LEFT JOIN LATERAL (SELECT v.number FROM search_vectors v WHERE v.entry = f.entry OFFSET 0) v ON TRUE
) h ON TRUE"""


def depth(query: SearchQuery) -> int:
    """How many of the best entries, by words or by vector, are candidates."""
    return query.limit if query.text is None or query.vector is None else query.pool


def arguments(
    queries: Sequence[SearchQuery], vectors: Mapping[int, Iterable[int]], spare: int = SPARE
) -> tuple[str, str]:
    """The parameters of :data:`QUERY` after the owner.

    Args:
        queries: valid.
        vectors: for each query by its number, the numbers of the vectors that are nearest to its own.
        spare: see :data:`SPARE`; a filter needs all scores sorted in any case.
    """
    asked = [
        {
            "query": number,
            "terms": [] if query.text is None else [escape(index_term(term)) for term in query_terms(query.text)],
            "best": depth(query),
            "reach": None if query.where else depth(query) + spare,
            "filtered": bool(query.where),
            "ids": None if query.ids is None else [escape(id_) for id_ in query.ids],
            "vectors": list(vectors.get(number, ())),
        }
        for number, query in enumerate(queries)
    ]
    return json.dumps(asked), filters_json([query.where for query in queries])


def is_cut(query: SearchQuery, rows: Sequence[Row], spare: int) -> bool:
    """Whether the last of the best by words may equal more entries than its rows have."""
    if query.where or query.ids is not None:
        return False
    best = depth(query)
    scores = sorted((row["score"] for row in rows if row["score"] is not None), reverse=True)
    return len(scores) >= best + spare and scores[best - 1] == scores[best + spare - 1]
