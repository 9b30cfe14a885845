"""PostgreSQL: all three contracts, for several processes and machines.

An append is one statement or one call of a function in the database, which locks the thread while it numbers; every
other write is one statement or one short transaction. Connections are pooled up to a limit; every wait has a timeout.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.clock import Clock
from wenmai.stores.postgresql.address import parse_url
from wenmai.stores.postgresql.database import Database
from wenmai.stores.postgresql.documents import PostgresqlDocuments
from wenmai.stores.postgresql.logs import PostgresqlLogs
from wenmai.stores.postgresql.schema import prepare_schema, schema_of
from wenmai.stores.postgresql.search import PostgresqlSearch
from wenmai.stores.upgrades import OnStep, Schema, log_step


class PostgresqlStore:
    """An open PostgreSQL database. See :class:`wenmai.stores.contracts.Store`."""

    name = "postgresql"

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self.documents: PostgresqlDocuments = PostgresqlDocuments(database, clock)
        self.logs: PostgresqlLogs = PostgresqlLogs(database, clock)
        self.search: PostgresqlSearch = PostgresqlSearch(database)

    async def ping(self) -> None:
        """Return if the server answers."""
        await self._database.fetch("SELECT 1")


async def schema_at(url: str) -> Schema:
    """The schema of the database, which is not changed.

    Raises:
        InvalidInput, StoreTooNew, StoreUnavailable: as for :func:`open_store`.
    """
    return await schema_of(parse_url(url))


async def upgrade(url: str, on_step: OnStep) -> None:
    """Create the tables or upgrade them to the current schema, as :func:`open_store` does, reporting each step.

    Raises:
        InvalidInput, StoreTooNew, StoreUnavailable: as for :func:`open_store`.
    """
    await prepare_schema(parse_url(url), on_step)


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[PostgresqlStore]:
    """Open the database, creating or upgrading the tables if needed; see ``docs/how-to/run-on-postgresql.md``.

    Raises:
        InvalidInput: the URL, user, database or server cannot be used; the message says what is required.
        StoreTooNew: a newer Wenmai wrote the tables.
        StoreUnavailable: the server cannot be reached.
    """
    address = parse_url(url)
    await prepare_schema(address, log_step)
    database = Database(address)
    try:
        yield PostgresqlStore(database, clock)
    finally:
        await database.close()
