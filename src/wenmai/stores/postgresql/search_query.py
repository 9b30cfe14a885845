"""The statements of a search: the postings of words, and the entries that are candidates.

Postings are found through a LATERAL that OFFSET 0 fences, so that the plan does not depend on statistics. A posting has
the length of its entry, so the scores of all entries are known before one is read. They are computed by
:mod:`wenmai.stores.word_scores`: the server would take longer to group the postings than to send them.
"""

from collections.abc import Collection, Sequence
from typing import Any

from wenmai.stores.fusion import is_fused
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
# ids. One row: arrays of the entries, and of the pairs of which the entry satisfies the query's filters.
ENTRIES = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
filters AS MATERIALIZED ({FILTERS.format("$9")}
)
SELECT {STATE}, h.entries, h.ids, h.fields, m.queries, m.matched
FROM part LEFT JOIN LATERAL (
  SELECT array_agg(e.entry) AS entries, array_agg(e.id) AS ids,
    array_agg(e.fields::text) FILTER (WHERE $8::boolean) AS fields
  FROM (
    SELECT e.entry, e.id, e.fields FROM search_entries e WHERE e.entry = ANY ($6::bigint[])
    UNION ALL
    SELECT e.entry, e.id, e.fields FROM unnest($7::text[]) AS u (id) CROSS JOIN LATERAL (
      SELECT e.* FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
    ) e
  ) e
) h ON TRUE LEFT JOIN LATERAL (
  SELECT array_agg(c.query) AS queries, array_agg(c.entry) AS matched
  FROM (
    SELECT u.query, u.entry FROM unnest($10::integer[], $11::bigint[]) AS u (query, entry)
    UNION ALL
    SELECT u.query, e.entry FROM unnest($12::integer[], $13::text[]) AS u (query, id) CROSS JOIN LATERAL (
      SELECT e.entry FROM search_entries e WHERE e.partition = part.partition AND e.id = u.id OFFSET 0
    ) e
  ) c
  WHERE {MATCHES.format(query="c.query", entry="c.entry")}
) m ON TRUE"""


def depth(query: SearchQuery) -> int:
    """How many of the best entries, by words or by vector, are candidates."""
    return query.pool if is_fused(query) else query.limit


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
