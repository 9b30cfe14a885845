"""Running searches, each on one snapshot.

Words take one round trip. Vectors are compared in this process, before the statement that ranks the words; that
statement also returns the partition's counter of changes, so one round trip is enough as long as the vectors in memory
are current (two with a filter, whose entries are needed first). If they are not, the search runs again in a transaction
that begins with reading what has changed.
"""

import asyncio
from collections.abc import Mapping, Sequence

from wenmai.stores.contracts import Hit, SearchQuery
from wenmai.stores.postgresql.database import Database, Row, Run
from wenmai.stores.postgresql.search_filters import FILTERS, MATCHING, filters_json
from wenmai.stores.postgresql.search_hits import hits_of
from wenmai.stores.postgresql.search_partitions import OWNER, STATE, Owner, state_of
from wenmai.stores.postgresql.search_query import QUERY, SPARE, arguments, depth, is_cut
from wenmai.stores.postgresql.search_vectors import SnapshotVectors, Vectors, Wanted
from wenmai.stores.search_values import check_queries, without_zeros
from wenmai.stores.vector_matrices import State

MORE_SPARE = 20
"""Factor of the next try if more entries than :data:`SPARE` equal the last of the best."""

# $6 filters, $7 the numbers of the queries.
_ALLOWED = f"""
WITH part AS MATERIALIZED (SELECT * FROM search_partitions WHERE {OWNER}),
filters AS MATERIALIZED ({FILTERS.format("$6")}
)
SELECT {STATE}, q.query, a.numbers
FROM part CROSS JOIN unnest($7::integer[]) AS q (query) CROSS JOIN LATERAL (
  SELECT array_agg(v.number) AS numbers
  FROM ({MATCHING.format(partition="part.partition", query="q.query")}
  ) m CROSS JOIN LATERAL (SELECT v.number FROM search_vectors v WHERE v.entry = m.entry OFFSET 0) v
) a"""


class Reader:
    """Runs the searches of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._vectors = Vectors()

    async def hits(self, owner: Owner, queries: Sequence[SearchQuery]) -> list[list[Hit]]:
        """The hits of each query.

        Raises:
            InvalidInput: a vector is not of the collection's length.
        """
        lengths = {len(query.vector) for query in queries if query.vector is not None}
        if not lengths:
            _, ranked = await _ranked(self._database.fetch, owner, queries, {})
            return [hits_of(query, found, {}) for query, found in zip(queries, ranked, strict=True)]
        last = self._vectors.last(owner)
        if last is not None and (lengths == {last.state.dimension} or not last.state.vectors):
            hits = await _search(self._database.fetch, owner, list(map(without_zeros, queries)), last)
            if hits is not None:
                return hits
        async with self._database.transaction(one_snapshot=True) as run:
            current = await self._vectors.current(run, owner)
            check_queries(queries, current.state.dimension or None)
            hits = await _search(run, owner, list(map(without_zeros, queries)), current)
        return hits or []


async def _search(
    run: Run, owner: Owner, queries: Sequence[SearchQuery], vectors: SnapshotVectors
) -> list[list[Hit]] | None:
    """The hits of each query; None if the vectors are those of another snapshot."""
    wanted = {
        number: Wanted(query.vector, depth(query), None)
        for number, query in enumerate(queries)
        if query.vector is not None and query.ids is None
    }
    filtered = [number for number in wanted if queries[number].where]
    if filtered and vectors.state.vectors:
        rows = await run(_ALLOWED, *owner, filters_json([query.where for query in queries]), filtered)
        if state_of(rows) != vectors.state:
            return None
        wanted |= {row["query"]: wanted[row["query"]]._replace(allowed=row["numbers"] or []) for row in rows}
    nearest = dict(zip(wanted, await vectors.nearest(run, list(wanted.values())), strict=True))
    state, ranked = await _ranked(run, owner, queries, nearest)
    if state != vectors.state:
        return None
    hits = []
    for number, (query, found) in enumerate(zip(queries, ranked, strict=True)):
        known = nearest.get(number, {})
        if query.vector is not None:
            others = {row["number"] for row in found}.difference(known, [None])
            known |= await vectors.similarities(run, query.vector, list(others))
        hits.append(await asyncio.to_thread(hits_of, query, found, known))
    return hits


async def _ranked(
    run: Run, owner: Owner, queries: Sequence[SearchQuery], nearest: Mapping[int, Mapping[int, float]]
) -> tuple[State, list[list[Row]]]:
    """The state of the partition, and the rows of each query."""
    spare = SPARE
    while True:
        rows = await run(QUERY, *owner, *arguments(queries, nearest, spare))
        found = _by_query(queries, rows)
        if not any(is_cut(query, each, spare) for query, each in zip(queries, found, strict=True)):
            return state_of(rows), found
        spare *= MORE_SPARE


def _by_query(queries: Sequence[SearchQuery], rows: Sequence[Row]) -> list[list[Row]]:
    """The rows of each query, without that of a partition in which nothing was found."""
    found: list[list[Row]] = [[] for _ in queries]
    for row in rows:
        if row["query"] is not None:
            found[row["query"]].append(row)
    return found
