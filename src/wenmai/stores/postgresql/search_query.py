"""The statement of a search: several queries by words and by the numbers of vectors, on one snapshot.

Postings drive it: the postings of a term are a LATERAL that OFFSET 0 fences, so that the plan does not depend on
statistics. A posting has the length of its entry; an entry's row is read only if it is among the best.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

import msgspec

from wenmai.stores.contracts import BM25_B, BM25_K1, Hit, SearchQuery
from wenmai.stores.fusion import Scores, best
from wenmai.stores.postgresql.database import Row, escape, unescape
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHES, filters_json
from wenmai.stores.vector_matrices import State
from wenmai.text.cjk import query_terms

LONGEST_TERM = 200
"""Characters; a longer term is indexed by its prefix and a digest, so that it fits into an index entry."""

Owner = tuple[str, str, str, bool, str]
"""Tenant, site, user (empty if shared), whether it is shared, and collection."""

OWNER = "tenant_id = $1 AND site_id = $2 AND user_id = $3 AND shared = $4 AND collection = $5"

STATE = "part.changes, part.vectors, CASE WHEN part.vectors > 0 THEN part.dimension ELSE 0 END AS dimension"
"""Begins the columns of a statement, for :func:`state_of`."""

_SCORE = f"""w.weight * {BM25_K1 + 1}::float8 * p.count
      / (p.count + {BM25_K1 * (1 - BM25_B)}::float8 + part.by_length * p.length)"""

# $6 queries, $7 filters. Equal entries score equally to the last bit, because their sums are in the order of the terms: an
# aggregate adds in the order of its input, and here it is never sorted.
QUERY = f"""
WITH part AS MATERIALIZED (
  SELECT partition, entries, vectors, dimension, changes,
    {BM25_K1 * BM25_B}::float8 * entries / greatest(length, 1) AS by_length
  FROM search_partitions WHERE {OWNER}
),
asked AS MATERIALIZED (
  SELECT q.* FROM jsonb_to_recordset($6::text::jsonb)
    AS q (query integer, terms text[], best bigint, filtered boolean, ids text[], vectors bigint[])
),
filters AS MATERIALIZED ({FILTERS.format("$7")}
),
weighted AS MATERIALIZED (
  SELECT q.query, t.term, t.place,
    ln(1 + (part.entries - held.entries + 0.5::float8) / (held.entries + 0.5::float8)) AS weight
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL unnest(q.terms) WITH ORDINALITY AS t (term, place)
  CROSS JOIN LATERAL (
    SELECT count(*) AS entries FROM search_postings p WHERE p.partition = part.partition AND p.term = t.term
  ) held
  ORDER BY q.query, t.place
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
      WHERE w.query = q.query GROUP BY p.entry ORDER BY score DESC OFFSET 0
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
  SELECT n.query, n.entry, s.score, s.covered
  FROM part CROSS JOIN named n CROSS JOIN LATERAL (
    SELECT sum({_SCORE}) AS score, sum(w.weight) AS covered
    FROM weighted w CROSS JOIN LATERAL (
      SELECT p.count, p.length FROM search_postings p
      WHERE p.partition = part.partition AND p.term = w.term AND p.entry = n.entry OFFSET 0
    ) p
    WHERE w.query = n.query
  ) s
)
SELECT {STATE}, h.query, h.id, h.fields, h.number, h.score, h.coverage
FROM part LEFT JOIN (
  SELECT f.query, e.id, e.fields, v.number, f.score,
    f.covered / (SELECT t.weight FROM totals t WHERE t.query = f.query) AS coverage
  FROM found f
  CROSS JOIN LATERAL (SELECT e.id, e.fields FROM search_entries e WHERE e.entry = f.entry OFFSET 0) e
  LEFT JOIN LATERAL (SELECT v.number FROM search_vectors v WHERE v.entry = f.entry OFFSET 0) v ON TRUE
) h ON TRUE"""


def index_term(term: str) -> str:
    """The term as it stands in the postings."""
    if len(term) <= LONGEST_TERM:
        return term
    return term[:LONGEST_TERM] + sha256(term.encode()).hexdigest()


def depth(query: SearchQuery) -> int:
    """How many of the best entries, by words or by vector, are candidates."""
    return query.limit if query.text is None or query.vector is None else query.pool


def arguments(queries: Sequence[SearchQuery], vectors: Mapping[int, Iterable[int]]) -> tuple[str, str]:
    """The parameters of :data:`QUERY` after the owner.

    Args:
        queries: valid.
        vectors: for each query by its number, the numbers of the vectors that are nearest to its own.
    """
    asked = [
        {
            "query": number,
            "terms": [] if query.text is None else [escape(index_term(term)) for term in query_terms(query.text)],
            "best": depth(query),
            "filtered": bool(query.where),
            "ids": None if query.ids is None else [escape(id_) for id_ in query.ids],
            "vectors": list(vectors.get(number, ())),
        }
        for number, query in enumerate(queries)
    ]
    return json.dumps(asked), filters_json([query.where for query in queries])


def state_of(rows: Sequence[Row]) -> State:
    """The state of the partition, with which the rows of a statement begin; zeros if there is none."""
    return State(*rows[0][:3]) if rows else State(0, 0, 0)


_decode_fields = msgspec.json.Decoder(dict[str, Any]).decode


def hits_of(query: SearchQuery, rows: Sequence[Row], similarities: Mapping[int, float]) -> list[Hit]:
    """The hits of a query.

    Args:
        query: valid.
        rows: those of :data:`QUERY` for this query.
        similarities: of the vectors, by their number.
    """
    found = {unescape(row["id"]): row for row in rows}
    scores = {id_: Scores(row["score"] or 0.0, similarities.get(row["number"])) for id_, row in found.items()}
    if query.ids is None:
        scores = _pooled(scores, depth(query))
    return [
        Hit(
            id=id_,
            lexical=scores[id_].lexical,
            coverage=min(1.0, found[id_]["coverage"] or 0.0),
            similarity=scores[id_].similarity,
            fields=_decode_fields(unescape(found[id_]["fields"])),
        )
        for id_ in best(query, scores)
    ]


def _pooled(scores: Mapping[str, Scores], count: int) -> dict[str, Scores]:
    """The best by words and by vector: the rows also have what equals the last of them."""
    words = sorted((-score.lexical, id_) for id_, score in scores.items() if score.lexical > 0)
    vectors = sorted((-score.similarity, id_) for id_, score in scores.items() if score.similarity is not None)
    return {id_: scores[id_] for ranked in (words, vectors) for _, id_ in ranked[:count]}
