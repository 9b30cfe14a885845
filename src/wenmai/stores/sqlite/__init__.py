"""The embedded store: one SQLite file, no server, all three contracts.

The file is in WAL mode with ``synchronous=FULL``, so acknowledged writes survive a power cut. One writer thread does
group commit (:mod:`.connection_threads`); reader threads have their own connections and never wait for it.

A process that has the store open must not open the file with the standard ``sqlite3`` module: two copies of SQLite in
one process cancel each other's locks. :func:`query_readonly` reads the file safely.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw

from wenmai.clock import Clock
from wenmai.errors import InvalidInput
from wenmai.stores.sqlite.connection_threads import ConnectionThreads
from wenmai.stores.sqlite.documents import SqliteDocuments
from wenmai.stores.sqlite.errors import translated_errors
from wenmai.stores.sqlite.file_identity import check_open_files
from wenmai.stores.sqlite.logs import SqliteLogs
from wenmai.stores.sqlite.schema import BUSY_MILLISECONDS, SCHEMA_VERSION, connect
from wenmai.stores.sqlite.search import SqliteSearch
from wenmai.stores.sqlite.upgrades import prepare_schema, schema_in
from wenmai.stores.upgrades import OnStep, Schema, log_step


class SqliteStore:
    """An open SQLite file. See :class:`wenmai.stores.contracts.Store`."""

    name = "sqlite"

    def __init__(self, connections: ConnectionThreads, clock: Clock) -> None:
        self._connections = connections
        self.documents: SqliteDocuments = SqliteDocuments(connections, clock)
        self.logs: SqliteLogs = SqliteLogs(connections, clock)
        self.search: SqliteSearch = SqliteSearch(connections)

    async def ping(self) -> None:
        """Return if the file can be read and is still the one that was opened."""
        await self._connections.ping()


def path_of(url: str) -> Path:
    """The path in ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

    Raises:
        InvalidInput: the URL names no file.
    """
    scheme, _, rest = url.partition("://")
    if scheme.lower() != "sqlite" or not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise InvalidInput(
            "store", url, "sqlite:///relative.db or sqlite:////absolute.db (for a store without a file, memory://)"
        )
    return Path(rest[1:])


async def schema_at(url: str) -> Schema:
    """The schema of the file, which is not changed.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it cannot be opened, or is not a Wenmai file.
    """
    path = path_of(url)
    if not path.exists():
        return Schema(0, SCHEMA_VERSION)
    connection = connect(path)
    try:
        with translated_errors(path):
            return schema_in(connection, path)
    finally:
        connection.close()


async def upgrade(url: str, on_step: OnStep) -> None:
    """Create the file or upgrade it to the current schema, as :func:`open_store` does, reporting each step.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it cannot be opened or written, or is not a Wenmai file.
    """
    prepare_schema(path_of(url), on_step)


async def query_readonly(url: str, sql: str, bindings: Sequence[Any] | Mapping[str, Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a query over the file, which may be open elsewhere in this and other processes.

    It uses its own read-only connection and sees one snapshot. While a query runs, the write-ahead log cannot restart,
    so a query of minutes lets it grow.

    Raises:
        InvalidInput: the URL names no file.
        StoreUnavailable: the file cannot be read, or the statement is not a valid query.
    """
    return await asyncio.to_thread(_query_readonly, path_of(url), sql, bindings)


def _query_readonly(path: Path, sql: str, bindings: Sequence[Any] | Mapping[str, Any]) -> list[tuple[Any, ...]]:
    check_open_files(path)
    with translated_errors(path):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_MILLISECONDS)
            return connection.execute(sql, bindings).fetchall()
        finally:
            connection.close()


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[SqliteStore]:
    """Open the file, creating or upgrading it if needed; all writes are on disk when the context ends.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it cannot be opened, or is not a Wenmai file.
    """
    path = path_of(url)
    check_open_files(path)
    prepare_schema(path, log_step)
    connections = ConnectionThreads(lambda: connect(path))
    try:
        yield SqliteStore(connections, clock)
    finally:
        await connections.close()
