"""Connections that are shared by tasks: at most so many, each given to one task at a time.

The driver's own pool resets a connection by a round trip and returns it in a task of its own, which doubles the
time of a short statement. Our statements leave nothing behind that would have to be reset.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeAlias

import asyncpg

from wenmai.errors import StoreUnavailable, WenmaiError

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

CLOSE_SECONDS = 5.0
"""How long closing waits for statements that run, and for the server's farewell."""


class Pool:
    """Opens connections when they are wanted, up to ``size``, and keeps them.

    Args:
        connect: opens one, within a bound of its own.
        size: how many there may be.
        wait_seconds: how long a task waits for a free one.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._places = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._closed = False

    async def take(self) -> Connection:
        """A connection for the caller alone, who must :meth:`give` or :meth:`drop` it.

        Raises:
            StoreUnavailable: none became free in time, or the pool is closed.
        """
        self._check_open()
        if self._places.locked():
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._places.acquire()
            except TimeoutError:
                reason = f"all {self._size} connections were busy for {self._wait_seconds:g} s"
                raise StoreUnavailable("postgresql", reason) from None
        else:
            await self._places.acquire()
        try:
            self._check_open()
            return self._waiting() or await self._connect()
        except BaseException:
            self._places.release()
            raise

    def _waiting(self) -> "Connection | None":
        """The connection that was used last, if the server has not closed it meanwhile."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("postgresql", "the store is closed")

    def give(self, connection: Connection) -> None:
        """Take a connection back that is as it was."""
        self._idle.append(connection)
        self._places.release()

    def drop(self, connection: Connection) -> None:
        """End a connection whose state nobody knows."""
        connection.terminate()
        self._places.release()

    def drop_idle(self) -> None:
        """End all connections that wait: the server behind them is likely gone."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """Let the statements that run end, within a bound, and close all connections."""
        self._closed = True
        taken = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while taken < self._size:
                    await self._places.acquire()
                    taken += 1
        for _ in range(taken):
            self._places.release()
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                connection.terminate()


@asynccontextmanager
async def lent(pool: Pool) -> AsyncIterator[Connection]:
    """A connection of the pool; after anything but an orderly refusal, by the server or by us, it is not used again."""
    connection = await pool.take()
    try:
        yield connection
    except (asyncpg.PostgresError, WenmaiError):
        if connection.is_closed() or connection.is_in_transaction():
            pool.drop(connection)
        else:
            pool.give(connection)
        raise
    except BaseException:
        pool.drop(connection)
        raise
    else:
        pool.give(connection)
