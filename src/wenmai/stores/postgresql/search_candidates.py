"""Reading the candidates of a search: the entries that satisfy filters, and those with given numbers or ids."""

from collections.abc import Collection, Mapping, Sequence

from wenmai.stores.hits import Entry
from wenmai.stores.postgresql.database import Row, Run, unescape
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHING, filters_json
from wenmai.stores.postgresql.search_partitions import OWNER, STATE, Owner, state_of
from wenmai.stores.structs import SearchQuery
from wenmai.stores.vector_matrices import State

# $6 filters, $7 the numbers of the queries.
_ALLOWED = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
filters AS MATERIALIZED ({FILTERS.format("$6")}
)
SELECT {STATE}, q.query, a.entries
FROM part CROSS JOIN unnest($7::integer[]) AS q (query) CROSS JOIN LATERAL (
  SELECT array_agg(m.entry) AS entries
  FROM ({MATCHING.format(partition="part.partition", query="q.query")}
  ) m
) a"""

Allowed = Mapping[int, Sequence[int]]
"""The entries that satisfy the filters of some queries, by the number of the query."""


async def allowed_entries(
    run: Run, owner: Owner, queries: Sequence[SearchQuery], filtered: Sequence[int], state: State
) -> Allowed | None:
    """What the filters of these queries allow; None if it is of another snapshot."""
    if not filtered:
        return {}
    rows = await run(_ALLOWED, *owner, filters_json([query.where for query in queries]), filtered)
    if state_of(rows) != state:
        return None
    return {row["query"]: row["entries"] or [] for row in rows}


def entries_of(read: Row) -> dict[int, Entry]:
    """The entries in the row of :data:`~wenmai.stores.postgresql.search_query.ENTRIES`, by number."""
    numbers, ids = read["entries"] or [], list(map(unescape, read["ids"] or ()))
    fields = map(unescape, read["fields"]) if read["fields"] else [""] * len(numbers)
    return {entry[0]: entry for entry in zip(numbers, ids, fields, strict=True)}


def matching(
    queries: Sequence[SearchQuery],
    read: Row,
    lists: Sequence[Collection[int]],
    unchecked: Collection[int],
) -> list[dict[int, Entry]]:
    """Each query's entries, or those of its ids, that satisfy its filters; by number."""
    rows = entries_of(read)
    matched = set(zip(read["queries"] or (), read["matched"] or (), strict=True))
    found = []
    for n, (query, own) in enumerate(zip(queries, lists, strict=True)):
        wanted = frozenset(query.ids or ())
        entries = (
            [entry for entry in own if entry in rows]
            if query.ids is None
            else [entry for entry, id_, _ in rows.values() if id_ in wanted]
        )
        found.append({entry: rows[entry] for entry in entries if n not in unchecked or (n, entry) in matched})
    return found
