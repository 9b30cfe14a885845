"""Search whose entries are screened before they are indexed."""

from collections.abc import Sequence

from wenmai.resilience.offload import run_by_size
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.private.screening import LARGE, Screening
from wenmai.stores.search_values import check_entries
from wenmai.stores.structs import CollectionSize, Hit, SearchEntry, SearchQuery, Where


class PrivateSearch:
    """See :class:`wenmai.stores.contracts.Search`. Shared collections have the sources of a site, which are public."""

    def __init__(self, search: Search, screening: Screening) -> None:
        self._search = search
        self._screening = screening

    async def index(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> None:
        """Index the entries; those of a user without private values."""
        screened = entries if shared else await self._screened(entries)
        await self._search.index(scope, collection, screened, shared=shared)

    async def embed(
        self, scope: Scope, collection: str, entries: Sequence[SearchEntry], *, shared: bool = False
    ) -> int:
        """Give the entries their vectors; an entry is found by its text as it was indexed."""
        screened = entries if shared else await self._screened(entries)
        return await self._search.embed(scope, collection, screened, shared=shared)

    async def _screened(self, entries: Sequence[SearchEntry]) -> Sequence[SearchEntry]:
        screening = self._screening

        def screened() -> list[SearchEntry]:
            return [screening.entry(entry) for entry in entries]

        try:
            return await run_by_size(sum(len(entry.text) for entry in entries), LARGE, screened)
        except (TypeError, UnicodeEncodeError):
            check_entries(entries, None)  # names the field
            raise

    async def without_vector(
        self, scope: Scope, collection: str, *, after: str = "", limit: int = 500, shared: bool = False
    ) -> list[str]:
        """As stored."""
        return await self._search.without_vector(scope, collection, after=after, limit=limit, shared=shared)

    async def query(
        self, scope: Scope, collection: str, queries: Sequence[SearchQuery], *, shared: bool = False
    ) -> list[list[Hit]]:
        """Queries are not stored."""
        return await self._search.query(scope, collection, queries, shared=shared)

    async def remove(
        self,
        scope: Scope,
        collection: str,
        ids: Sequence[str] | None = None,
        *,
        where: Where | None = None,
        shared: bool = False,
    ) -> int:
        """Remove entries."""
        return await self._search.remove(scope, collection, ids, where=where, shared=shared)

    async def size(self, scope: Scope, collection: str, *, shared: bool = False) -> CollectionSize:
        """The size of the collection."""
        return await self._search.size(scope, collection, shared=shared)
