"""Terms and names of fields that fit into an index, and the postings of entries that are removed."""

from hashlib import sha256

from wenmai.stores.word_scores import BLOCK, BLOCK_BITS, POSTING_BYTES

LONGEST_TERM = 200
"""Characters; a longer term is indexed by its prefix and a digest, so that it fits into an index entry."""

SEPARATOR = "\n"
"""Between the terms of an entry; no term contains a space."""

REMOVED_POSTINGS = rf"""
  gone_terms AS MATERIALIZED (
    SELECT u.term, g.entry >> {BLOCK_BITS} AS block, array_agg((g.entry & {BLOCK - 1})::integer) AS places
    FROM gone g CROSS JOIN LATERAL unnest(string_to_array(g.terms, E'\n')) AS u (term) GROUP BY 1, 2
  ),
  kept_postings AS MATERIALIZED (
    SELECT p.place, (
      SELECT string_agg(substr(p.postings, {POSTING_BYTES} * n + 1, {POSTING_BYTES}), ''::bytea ORDER BY n)
      FROM generate_series(0, length(p.postings) / {POSTING_BYTES} - 1) n
      WHERE get_byte(p.postings, {POSTING_BYTES} * n) <> ALL (g.places)
    ) AS postings
    FROM gone_terms g CROSS JOIN LATERAL (
      SELECT p.ctid AS place, p.postings FROM search_postings p
      WHERE p.partition = $1 AND p.term = g.term AND p.block = g.block OFFSET 0
    ) p
  ),
  emptied AS (DELETE FROM search_postings p USING kept_postings k WHERE p.ctid = k.place AND k.postings IS NULL),
  shortened AS (
    UPDATE search_postings p SET postings = k.postings FROM kept_postings k
    WHERE p.ctid = k.place AND k.postings IS NOT NULL
  )"""
"""Parts of a statement that remove the postings of the entries ``gone`` (``entry`` and ``terms``) of partition $1.

The rows are found through a LATERAL and by their places in the table, so that the plan does not depend on statistics.
"""


def index_term(term: str) -> str:
    """The term, or the name of a field, as stored in the index."""
    if len(term) <= LONGEST_TERM:
        return term
    return term[:LONGEST_TERM] + sha256(term.encode()).hexdigest()
