"""Removal from a search index, in statements of limited length; the caller's transaction makes it all or none."""

from collections.abc import Sequence

from wenmai.stores.postgresql.database import Run
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHING, filters_json
from wenmai.stores.postgresql.search_partitions import Partition
from wenmai.stores.postgresql.search_terms import REMOVED_POSTINGS
from wenmai.stores.structs import Where

REMOVAL_BATCH = 1_000
"""Entries that a statement removes, so that each is short."""

_REMOVE = """
WITH {filters}doomed AS MATERIALIZED ({doomed}),
  gone AS (
    DELETE FROM search_entries e USING doomed d WHERE e.entry = d.entry
    RETURNING e.entry, e.length, e.embedded, e.terms
  ),
{postings},
  fields AS (DELETE FROM search_fields f USING gone WHERE f.entry = gone.entry),
  vectors AS (DELETE FROM search_vectors v USING gone WHERE v.entry = gone.entry),
  sums AS (
    SELECT count(*) AS entries, coalesce(sum(length), 0)::bigint AS length, count(*) FILTER (WHERE embedded) AS vectors
    FROM gone
  )
UPDATE search_partitions p SET changes = p.changes + 1,
  entries = p.entries - sums.entries, length = p.length - sums.length, vectors = p.vectors - sums.vectors
FROM sums WHERE p.partition = $1 AND sums.entries > 0 RETURNING sums.entries"""
_REMOVE_IDS = _REMOVE.format(
    filters="",
    postings=REMOVED_POSTINGS,
    doomed="SELECT entry FROM search_entries WHERE partition = $1 AND id = ANY ($2::text[])",
)
_REMOVE_MATCHING = _REMOVE.format(
    postings=REMOVED_POSTINGS,
    filters=f"filters AS MATERIALIZED ({FILTERS.format('$2')}\n),\n",
    doomed=f"{MATCHING.format(partition='$1', query='0')}\n    LIMIT {REMOVAL_BATCH}",
)


async def remove_ids(run: Run, partition: Partition, ids: Sequence[str]) -> int:
    """Remove the entries with these ids; return how many there were."""
    removed = 0
    for first in range(0, len(ids), REMOVAL_BATCH):
        removed += await _removed(run, _REMOVE_IDS, partition, list(ids[first : first + REMOVAL_BATCH]))
    return removed


async def remove_matching(run: Run, partition: Partition, where: Where) -> int:
    """Remove the entries that match; return how many there were."""
    filters = filters_json([where])
    removed = 0
    while batch := await _removed(run, _REMOVE_MATCHING, partition, filters):
        removed += batch
    return removed


async def _removed(run: Run, sql: str, partition: Partition, wanted: list[str] | str) -> int:
    rows = await run(sql, partition.number, wanted)
    return rows[0]["entries"] if rows else 0
