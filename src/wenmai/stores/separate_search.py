"""A store whose search indexes are in another store."""

from wenmai.stores.contracts import Documents, Logs, Search, Store


class StoreWithSearch:
    """See :class:`wenmai.stores.contracts.Store`; documents and logs of one store, search of another.

    Attributes:
        name: of the store of documents and logs, without which there is no answer; search has a circuit breaker
            where it is used.
    """

    def __init__(self, store: Store, search: Search) -> None:
        self._store = store
        self.name: str = store.name
        self.documents: Documents | None = store.documents
        self.logs: Logs | None = store.logs
        self.search: Search | None = search

    async def ping(self) -> None:
        """Return if the store of documents and logs answers."""
        await self._store.ping()
