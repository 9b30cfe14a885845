"""Statements on the server, each with a timeout; every failure is raised as one of our errors."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import asyncpg

from wenmai.errors import InvalidInput, StoreUnavailable, WenmaiError
from wenmai.stores.postgresql.address import Address
from wenmai.stores.postgresql.pool import Connection, Pool, PooledConnection

Row = asyncpg.Record
Run = Callable[..., Awaitable[list[Row]]]
"""Runs a statement with its arguments and returns all rows."""

GRACE_SECONDS = 1.0
"""How much longer than the statement timeout we wait for the server's reply that it cancelled the statement."""

CACHED_STATEMENTS = 256
"""Prepared statements cached per connection; ours are about a hundred."""

_SETTINGS = {
    "application_name": "wenmai",
    "default_transaction_isolation": "read committed",
    "jit": "off",
    # Plan a statement once per connection: planning each call took longer than reading the tail of an append.
    "plan_cache_mode": "force_generic_plan",
    # The tables may be empty at planning time; all our statements need an index.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    # A search by words groups the postings of its terms in memory.
    "work_mem": "32MB",
}
"""Settings that our statements require, whatever the server's configuration."""

_MARK = "\U0010ffff"
"""A noncharacter that texts should not contain; PostgreSQL accepts it, but refuses NUL."""


def escape(value: Any) -> Any:
    """Escape NUL in a text or a list of texts: NUL becomes mark and ``0``, the mark becomes mark and ``1``."""
    if type(value) is str and ("\0" in value or _MARK in value):
        return value.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    if type(value) is list:
        return [escape(each) for each in value]
    return value


def unescape(text: str) -> str:
    """The inverse of :func:`escape`."""
    return text.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK) if _MARK in text else text


class translated_errors:  # noqa: N801 — used like a function
    """Raise every exception of the driver, the server or the network as one of our errors.

    Raises:
        InvalidInput: the server cannot store a value.
        StoreUnavailable: any other failure; unless the server itself reported it, the pool's idle connections are
            closed too.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        """Enter."""

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        """Translate the exception."""
        match problem:
            case asyncpg.DataError() | asyncpg.ProgramLimitExceededError():
                raise InvalidInput("record", _reason(problem), "a value that PostgreSQL can store") from problem
            case TimeoutError():
                self._discard_idle()
                raise StoreUnavailable("postgresql", "the server did not answer in time") from problem
            case WenmaiError():
                return
            case asyncpg.PostgresError() if not isinstance(problem, asyncpg.PostgresConnectionError):
                raise StoreUnavailable("postgresql", _reason(problem)) from problem
            case Exception():
                # A lost connection raises any of a dozen exception types, of the driver and of Python.
                self._discard_idle()
                raise StoreUnavailable("postgresql", _reason(problem)) from problem

    def _discard_idle(self) -> None:
        if self._pool is not None:
            self._pool.discard_idle()


class Database:
    """The connection pool of one URL, with its limits."""

    def __init__(self, address: Address) -> None:
        self._bounds = address.bounds
        self._pool = Pool(
            lambda: connect(address), size=self._bounds.connections, wait_seconds=self._bounds.connect_seconds
        )

    async def fetch(self, sql: str, *arguments: Any) -> list[Row]:
        """All rows of one statement, in its own transaction."""
        with translated_errors(self._pool):
            async with PooledConnection(self._pool) as connection:
                return await connection.fetch(sql, *map(escape, arguments))

    async def fetch_unless_conflict(self, sql: str, *arguments: Any) -> list[Row]:
        """All rows of one statement; none if it violated a unique index, and so did nothing."""
        with translated_errors(self._pool):
            async with PooledConnection(self._pool) as connection:
                try:
                    return await connection.fetch(sql, *map(escape, arguments))
                except asyncpg.UniqueViolationError:
                    return []

    async def fetch_batch_unless_conflict(self, sql: str, batch: Sequence[Sequence[Any]]) -> list[Row] | None:
        """All rows of a statement, run for several argument lists in one transaction.

        None if one of them violated a unique index or was refused as invalid: then none has done anything.
        """
        with translated_errors(self._pool):
            async with PooledConnection(self._pool) as connection:
                try:
                    return await connection.fetchmany(sql, [[*map(escape, arguments)] for arguments in batch])
                except (asyncpg.UniqueViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError):
                    return None

    @asynccontextmanager
    async def transaction(self, *, one_snapshot: bool = False) -> AsyncIterator[Run]:
        """A transaction of several statements; an error rolls it back.

        With ``one_snapshot`` it only reads, and every statement sees the same commits.
        """
        options: dict[str, Any] = {"isolation": "repeatable_read", "readonly": True} if one_snapshot else {}
        with translated_errors(self._pool):
            async with PooledConnection(self._pool) as connection, connection.transaction(**options):

                async def run(sql: str, *arguments: Any) -> list[Row]:
                    return await connection.fetch(sql, *map(escape, arguments))

                yield run

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()


async def connect(address: Address) -> Connection:
    """Open a connection with the limits of the URL.

    Raises:
        TimeoutError: the server did not answer in time.
        OSError: the server cannot be reached.
        asyncpg.PostgresError: the server refuses.
        ValueError, asyncpg.InterfaceError: the driver does not accept the URL.
    """
    bounds = address.bounds
    milliseconds = round(bounds.statement_seconds * 1_000)
    connection: Connection = await asyncpg.connect(
        address.dsn,
        timeout=bounds.connect_seconds,
        command_timeout=bounds.statement_seconds + GRACE_SECONDS,
        statement_cache_size=CACHED_STATEMENTS,
        server_settings=_SETTINGS
        | dict.fromkeys(("statement_timeout", "idle_in_transaction_session_timeout"), str(milliseconds)),
    )
    return connection


def _reason(problem: Exception) -> str:
    """The error message on one line, without the server's details, which may quote data."""
    message = problem.args[0] if isinstance(problem, asyncpg.PostgresError) and problem.args else problem
    return " ".join(str(message).split()) or type(problem).__name__
