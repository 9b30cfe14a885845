"""Running searches: one round trip for words; the same for vectors, as long as those in memory are the database's."""

from collections.abc import Mapping, Sequence

from wenmai.stores.contracts import Hit, SearchQuery
from wenmai.stores.postgresql.database import Database, Row, Run
from wenmai.stores.postgresql.search_query import QUERY, Owner, arguments, hits_of, state_of
from wenmai.stores.search_values import check_queries


class Reader:
    """Runs the searches of one store."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def hits(self, owner: Owner, queries: Sequence[SearchQuery]) -> list[list[Hit]]:
        """The hits of each query, all on one snapshot."""
        rows = await self._database.fetch(QUERY, *owner, *arguments(queries, {}))
        check_queries(queries, state_of(rows).dimension)
        return [hits_of(query, [row for row in rows if row["query"] == number], {}) for number, query in enumerate(queries)]
