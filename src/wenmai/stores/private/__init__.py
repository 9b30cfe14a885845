"""A store in which nothing private is written: the one place that everything on its way to a store passes.

It is put around the store with its cache and its search, so none of them sees what users said in the clear. Screened
are the fields that messages and records declare ``private``, and the texts of search entries that belong to a user.
Names, ids and the shared collections of a site, its evidence, are stored as they are. What cannot be screened is
refused. See ``docs/explanation/privacy.md``.
"""

from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.private.documents import PrivateDocuments
from wenmai.stores.private.logs import PrivateLogs
from wenmai.stores.private.screening import Screening
from wenmai.stores.private.search import PrivateSearch
from wenmai.text.redact import Redactor

__all__ = ["PrivateStore", "Screening"]


class PrivateStore:
    """See :class:`wenmai.stores.contracts.Store`; writes are screened, reads return what was stored.

    Attributes:
        name: of the store.
    """

    def __init__(self, store: Store, redactor: Redactor) -> None:
        screening = Screening(redactor)
        self._store = store
        self.encrypted: object = getattr(store, "encrypted", None)
        self.name: str = store.name
        self.documents: Documents | None = store.documents and PrivateDocuments(store.documents, screening)
        self.logs: Logs | None = store.logs and PrivateLogs(store.logs, screening)
        self.search: Search | None = store.search and PrivateSearch(store.search, screening)

    async def ping(self) -> None:
        """Return if the store answers."""
        await self._store.ping()
