"""The statements of a search: the postings of words, and the entries that are candidates.

Postings are found through a LATERAL that OFFSET 0 fences, so that the plan does not depend on statistics. A posting has
the length of its entry, so the scores of all entries are known before one is read. They are computed by
:mod:`wenmai.stores.word_scores`: the server would take longer to group the postings than to send them.
"""

from collections.abc import Collection, Sequence
from typing import Any

from wenmai.stores.postgresql.search_filters import FILTERS, MATCHES, filters_json
from wenmai.stores.postgresql.search_partitions import OWNER, STATE
from wenmai.stores.postgresql.search_terms import index_term
from wenmai.stores.structs import SearchQuery
from wenmai.text.cjk import query_terms

# $6 terms. A row for each of them; for an empty or absent list, one without a number.
POSTINGS = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER})
SELECT {STATE}, part.partition, part.entries, part.length, t.number, p.blocks, p.sizes, p.postings
FROM part LEFT JOIN unnest($6::text[]) WITH ORDINALITY AS t (term, number) ON TRUE LEFT JOIN LATERAL (
  SELECT array_agg(p.block) AS blocks, array_agg(length(p.postings)) AS sizes, string_agg(p.postings, '') AS postings
  FROM (
    SELECT p.block, p.postings FROM search_postings p
    WHERE p.partition = part.partition AND p.term = t.term OFFSET 0
  ) p
) p ON TRUE ORDER BY t.number"""

# $6 entries, $7 ids, $8 whether with their fields; $9 filters, $10 and $11 queries and entries, $12 and $13 queries and
# ids. A row for each entry, and one with the query for each of the pairs that satisfies the query's filters.
ENTRIES = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
filters AS MATERIALIZED ({FILTERS.format("$9")}
)
SELECT {STATE}, h.query, h.entry, h.id, h.fields
FROM part LEFT JOIN LATERAL (
  SELECT NULL::integer AS query, e.entry, e.id, CASE WHEN $8::boolean THEN e.fields END AS fields
  FROM search_entries e WHERE e.entry = ANY ($6::bigint[])
  UNION ALL
  SELECT NULL, e.entry, e.id, CASE WHEN $8::boolean THEN e.fields END
  FROM unnest($7::text[]) AS u (id) CROSS JOIN LATERAL (
    SELECT e.* FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
  ) e
  UNION ALL
  SELECT u.query, u.entry, NULL, NULL FROM unnest($10::integer[], $11::bigint[]) AS u (query, entry)
  WHERE {MATCHES.format(query="u.query", entry="u.entry")}
  UNION ALL
  SELECT u.query, e.entry, NULL, NULL FROM unnest($12::integer[], $13::text[]) AS u (query, id) CROSS JOIN LATERAL (
    SELECT e.entry FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
  ) e WHERE {MATCHES.format(query="u.query", entry="e.entry")}
) h ON TRUE"""


def depth(query: SearchQuery) -> int:
    """How many of the best entries, by words or by vector, are candidates."""
    return query.limit if query.text is None or query.vector is None else query.pool


def terms_of(query: SearchQuery) -> list[str]:
    """The terms of a query as they are indexed; none if it has no text."""
    return [] if query.text is None else [index_term(term) for term in query_terms(query.text)]


def arguments(
    queries: Sequence[SearchQuery], lists: Sequence[Collection[int]], unchecked: Collection[int]
) -> list[Any]:
    """The parameters of :data:`ENTRIES` after the owner.

    Args:
        queries: of the search.
        lists: the entries of each.
        unchecked: the queries whose filters the entries may not satisfy.
    """
    pairs = [(n, entry) for n in unchecked for entry in lists[n]]
    named = [(n, id_) for n in unchecked for id_ in queries[n].ids or ()]
    return [
        sorted({entry for each in lists for entry in each}),
        list({id_ for query in queries for id_ in query.ids or ()}),
        any(query.fields for query in queries),
        filters_json([query.where for query in queries]),
        *([pair[column] for pair in those] for those in (pairs, named) for column in (0, 1)),
    ]
