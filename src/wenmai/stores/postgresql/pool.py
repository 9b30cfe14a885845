"""Connections that are shared by tasks: at most so many, each given to one task at a time.

The driver's own pool resets a connection by a round trip and returns it in a task of its own, which doubles the
time of a short statement. Our statements leave nothing behind that would have to be reset.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
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
        self._places = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connection] = []
        self._closed = False

    async def take(self) -> Connection:
        """A connection for the caller alone, who must :meth:`give` or :meth:`drop` it.

        Raises:
            StoreUnavailable: none became free in time, or the pool is closed.
        """
        self._check_open()
        if self._places:
            self._places -= 1
        else:
            try:
                await self._wait_for_place(self._wait_seconds)
            except TimeoutError:
                reason = f"all {self._size} connections were busy for {self._wait_seconds:g} s"
                raise StoreUnavailable("postgresql", reason) from None
        try:
            self._check_open()
            return self._kept() or await self._connect()
        except BaseException:
            self._leave_place()
            raise

    async def _wait_for_place(self, seconds: float) -> None:
        """Return with a place that another task has left; who has waited longest gets it.

        Raises:
            TimeoutError: there was none in time.
        """
        loop = asyncio.get_running_loop()
        place: asyncio.Future[None] = loop.create_future()
        self._waiting.append(place)
        limit = loop.call_later(seconds, _refuse, place)
        try:
            await place
        except asyncio.CancelledError:
            # A place that was refused in the same round of the loop was never given.
            if place.done() and not place.cancelled() and place.exception() is None:
                self._leave_place()
            raise
        finally:
            limit.cancel()

    def _leave_place(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                place.set_result(None)
                return
        self._places += 1

    def _kept(self) -> "Connection | None":
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
        self._leave_place()

    def drop(self, connection: Connection) -> None:
        """End a connection whose state nobody knows."""
        connection.terminate()
        self._leave_place()

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
                    if self._places:
                        self._places -= 1
                    else:
                        await self._wait_for_place(CLOSE_SECONDS)
                    taken += 1
        for _ in range(taken):
            self._leave_place()
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except Exception:  # noqa: BLE001 — whatever the driver says of it, the connection ends
                connection.terminate()


def _refuse(place: "asyncio.Future[None]") -> None:
    if not place.done():
        place.set_exception(TimeoutError())


class Loan:
    """A connection of the pool; after anything but an orderly refusal, by the server or by us, it is not used again."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Connection:
        """Take it."""
        self._connection = await self._pool.take()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        """Give it back, or end it."""
        connection = self._connection
        refused = isinstance(problem, asyncpg.PostgresError | WenmaiError)
        if problem is None or (refused and not (connection.is_closed() or connection.is_in_transaction())):
            self._pool.give(connection)
        else:
            self._pool.drop(connection)
