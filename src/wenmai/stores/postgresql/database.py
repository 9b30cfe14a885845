"""Statements on the server, each within a bound, with every failure told as one of our errors."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

import asyncpg

from wenmai.errors import InvalidInput, StoreUnavailable, WenmaiError
from wenmai.stores.postgresql.address import Address
from wenmai.stores.postgresql.pool import Connection, Loan, Pool

Row = asyncpg.Record
Run = Callable[..., Awaitable[list[Row]]]
"""Runs a statement with its arguments and gives all rows."""

GRACE_SECONDS = 1.0
"""How much longer than the server's own bound we wait for its word that it has given a statement up."""

CACHED_STATEMENTS = 256
"""Prepared statements that a connection keeps; ours are about a hundred."""

_SETTINGS = {
    "application_name": "wenmai",
    "default_transaction_isolation": "read committed",
    "jit": "off",
    # A statement is planned once a connection, not at each call, which took longer than the tail of an append itself.
    "plan_cache_mode": "force_generic_plan",
    # The tables may still be empty then; ours are all statements for an index.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
}
"""What our statements count on, whatever the server's configuration says."""

_MARK = "\U0010ffff"
"""A code point that no text is meant to hold; PostgreSQL takes it, and refuses NUL."""


def escape(value: Any) -> Any:
    """A text, or the texts of a list, without NUL: NUL becomes the mark and ``0``, the mark itself that and ``1``."""
    if type(value) is str and ("\0" in value or _MARK in value):
        return value.replace(_MARK, f"{_MARK}1").replace("\0", f"{_MARK}0")
    if type(value) is list:
        return [escape(each) for each in value]
    return value


def unescape(text: str) -> str:
    """The text that :func:`escape` was given."""
    return text.replace(f"{_MARK}0", "\0").replace(f"{_MARK}1", _MARK) if _MARK in text else text


class translated_errors:  # noqa: N801 — used like a function
    """Raise every exception of the driver, the server or the network as one of our errors.

    Raises:
        InvalidInput: the server cannot keep what it was given.
        StoreUnavailable: anything else; unless the server itself reports it, the idle connections of the pool are
            closed too.
    """

    def __init__(self, pool: Pool | None = None) -> None:
        self._pool = pool

    def __enter__(self) -> None:
        """Begin."""

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        """End; raises."""
        match problem:
            case asyncpg.DataError() | asyncpg.ProgramLimitExceededError():
                raise InvalidInput("record", _reason(problem), "what PostgreSQL can keep") from problem
            case TimeoutError():
                self._drop_idle()
                raise StoreUnavailable("postgresql", "the server did not answer in time") from problem
            case WenmaiError():
                return
            case asyncpg.PostgresError() if not isinstance(problem, asyncpg.PostgresConnectionError):
                raise StoreUnavailable("postgresql", _reason(problem)) from problem
            case Exception():
                # A connection that is cut shows as any of a dozen types, of the driver's and of Python's.
                self._drop_idle()
                raise StoreUnavailable("postgresql", _reason(problem)) from problem

    def _drop_idle(self) -> None:
        if self._pool is not None:
            self._pool.drop_idle()


class Database:
    """The pool of one URL, with the bounds that the URL sets."""

    def __init__(self, address: Address) -> None:
        self._bounds = address.bounds
        self._pool = Pool(
            lambda: connect(address), size=self._bounds.connections, wait_seconds=self._bounds.connect_seconds
        )

    async def fetch(self, sql: str, *arguments: Any) -> list[Row]:
        """All rows of one statement, which is a transaction of its own."""
        with translated_errors(self._pool):
            async with Loan(self._pool) as connection:
                return await connection.fetch(sql, *map(escape, arguments))

    async def attempt(self, sql: str, *arguments: Any) -> list[Row]:
        """All rows of one statement, none if another's row is where it was to put one: then it has done nothing."""
        with translated_errors(self._pool):
            async with Loan(self._pool) as connection:
                try:
                    return await connection.fetch(sql, *map(escape, arguments))
                except asyncpg.UniqueViolationError:
                    return []

    async def attempt_together(self, sql: str, batch: Sequence[Sequence[Any]]) -> list[Row] | None:
        """All rows of a statement for each of several arguments, in one transaction.

        None if the server or the driver refuses some of them as they are: then none has done anything.
        """
        with translated_errors(self._pool):
            async with Loan(self._pool) as connection:
                try:
                    return await connection.fetchmany(sql, [[*map(escape, arguments)] for arguments in batch])
                except (asyncpg.UniqueViolationError, asyncpg.DataError, asyncpg.ProgramLimitExceededError):
                    return None

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Run]:
        """Several statements, all or none; an error undoes them."""
        with translated_errors(self._pool):
            async with Loan(self._pool) as connection, connection.transaction():

                async def run(sql: str, *arguments: Any) -> list[Row]:
                    return await connection.fetch(sql, *map(escape, arguments))

                yield run

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.close()


async def connect(address: Address) -> Connection:
    """A connection with the bounds of the URL.

    Raises:
        TimeoutError: the server did not answer in time.
        OSError: the server is not there.
        asyncpg.PostgresError: the server refuses.
        ValueError, asyncpg.InterfaceError: the URL is not one for the driver.
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
    """What the server or the network says, on one line and without the details, which may quote data."""
    said = problem.args[0] if isinstance(problem, asyncpg.PostgresError) and problem.args else problem
    return " ".join(str(said).split()) or type(problem).__name__
