"""The statements of a search: the postings of words, and the entries that are candidates.

Postings are found through a LATERAL that OFFSET 0 fences, so that the plan does not depend on statistics. A posting has
the length of its entry, so the scores of all entries are known before one is read. They are computed by
:mod:`wenmai.stores.word_scores`: the server would take longer to group the postings than to send them.
"""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from wenmai.stores.postgresql.database import escape
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHES, filters_json
from wenmai.stores.postgresql.search_partitions import OWNER, STATE
from wenmai.stores.postgresql.search_terms import index_term
from wenmai.stores.structs import SearchQuery
from wenmai.text.cjk import query_terms

# $6 terms. A row for each of them; for an empty or absent list, one without a number.
POSTINGS = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER})
SELECT {STATE}, part.partition, part.entries, part.length, t.number, p.postings
FROM part LEFT JOIN unnest($6::text[]) WITH ORDINALITY AS t (term, number) ON TRUE LEFT JOIN LATERAL (
  SELECT string_agg(int8send(p.entry) || int8send(p.count::bigint << 32 | p.length), '') AS postings
  FROM (
    SELECT p.entry, p.count, p.length FROM search_postings p
    WHERE p.partition = part.partition AND p.term = t.term OFFSET 0
  ) p
) p ON TRUE ORDER BY t.number"""

# $6 queries, $7 filters.
ENTRIES = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
asked AS MATERIALIZED (
  SELECT q.* FROM jsonb_to_recordset($6::text::jsonb) AS q (
    query integer, entries bigint[], scores bigint[], best bigint, filtered boolean, ids text[], nearest bigint[],
    fields boolean
  )
),
filters AS MATERIALIZED ({FILTERS.format("$7")}
),
found AS MATERIALIZED (
  SELECT q.query, s.entry
  FROM asked q CROSS JOIN LATERAL (
    SELECT u.entry FROM unnest(q.entries, q.scores) AS u (entry, score)
    WHERE NOT q.filtered OR {MATCHES.format(query="q.query", entry="u.entry")}
    ORDER BY u.score DESC FETCH FIRST (q.best) ROWS WITH TIES
  ) s
  UNION
  SELECT q.query, e.entry
  FROM part CROSS JOIN asked q CROSS JOIN LATERAL unnest(q.ids) AS u (id) CROSS JOIN LATERAL (
    SELECT e.entry FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
  ) e
  WHERE NOT q.filtered OR {MATCHES.format(query="q.query", entry="e.entry")}
  UNION
  SELECT q.query, u.entry FROM asked q CROSS JOIN LATERAL unnest(q.nearest) AS u (entry)
)
SELECT {STATE}, h.query, h.entry, h.id, h.fields
FROM part LEFT JOIN (
  SELECT f.query, f.entry, e.id, CASE WHEN q.fields THEN e.fields END AS fields
  FROM found f JOIN asked q ON q.query = f.query
  CROSS JOIN LATERAL (SELECT e.id, e.fields FROM search_entries e WHERE e.entry = f.entry OFFSET 0) e
) h ON TRUE"""


class Wanted(NamedTuple):
    """The candidates of a query: the best entries by words with their scores, and those by vector."""

    words: Mapping[int, int]
    nearest: Sequence[int]


def depth(query: SearchQuery) -> int:
    """How many of the best entries, by words or by vector, are candidates."""
    return query.limit if query.text is None or query.vector is None else query.pool


def terms_of(query: SearchQuery) -> list[str]:
    """The terms of a query as they are indexed; none if it has no text."""
    return [] if query.text is None else [index_term(term) for term in query_terms(query.text)]


def arguments(queries: Sequence[SearchQuery], wanted: Sequence[Wanted]) -> tuple[str, str]:
    """The parameters of :data:`ENTRIES` after the owner."""
    asked = [
        {
            "query": number,
            "entries": list(each.words),
            "scores": list(each.words.values()),
            "best": depth(query),
            "filtered": bool(query.where),
            "ids": None if query.ids is None else [escape(id_) for id_ in query.ids],
            "nearest": list(each.nearest),
            "fields": query.fields,
        }
        for number, (query, each) in enumerate(zip(queries, wanted, strict=True))
    ]
    return json.dumps(asked), filters_json([query.where for query in queries])
