"""The embedded store: one SQLite file, no server, all three contracts.

The file is in WAL mode with ``synchronous=FULL``: what was acknowledged survives a power cut. One thread writes
and commits together whatever waits (:mod:`.lanes`); readers have connections of their own and never wait for it.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wenmai.clock import Clock
from wenmai.errors import InvalidInput
from wenmai.stores.sqlite.documents import SqliteDocuments
from wenmai.stores.sqlite.lanes import Lanes, fetch
from wenmai.stores.sqlite.logs import SqliteLogs
from wenmai.stores.sqlite.schema import connect, prepare_schema
from wenmai.stores.sqlite.search import SqliteSearch


class SqliteStore:
    """An open SQLite file. See :class:`wenmai.stores.base.Store`."""

    name = "sqlite"

    def __init__(self, lanes: Lanes, clock: Clock) -> None:
        self._lanes = lanes
        self.documents = SqliteDocuments(lanes, clock)
        self.logs = SqliteLogs(lanes, clock)
        self.search = SqliteSearch(lanes)

    async def ping(self) -> None:
        """Return if the file can be read."""
        await self._lanes.read(lambda connection: fetch(connection, "SELECT 1"))


def path_of(url: str) -> Path:
    """The file named by ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Raises:
        InvalidInput: the URL names no file.
    """
    scheme, _, rest = url.partition("://")
    if scheme.lower() != "sqlite" or not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise InvalidInput("store", url, "sqlite:///relative.db or sqlite:////absolute.db (memory:// keeps no file)")
    return Path(rest[1:])


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[SqliteStore]:
    """Open the file, creating it if there is none; everything is on disk when the context ends.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it cannot be opened, or is not a Wenmai file.
    """
    path = path_of(url)
    prepare_schema(path)
    lanes = Lanes(lambda: connect(path))
    try:
        yield SqliteStore(lanes, clock)
    finally:
        await lanes.close()
