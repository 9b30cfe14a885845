"""A bounded connection pool; each connection is used by one task at a time.

The driver's own pool resets a connection with a round trip and returns it in a separate task, which doubles the time of
a short statement. Our statements leave no state that would need a reset.
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
"""How long closing waits for running statements, and for the server to close a connection."""


class Pool:
    """Opens connections on demand, up to ``size``, and reuses them.

    Args:
        connect: opens one, with its own timeout.
        size: most connections.
        wait_seconds: how long a task waits for a free one.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, size: int, wait_seconds: float) -> None:
        self._connect = connect
        self._size = size
        self._wait_seconds = wait_seconds
        self._free_slots = size
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._idle: list[Connection] = []
        self._closed = False

    async def acquire(self) -> Connection:
        """Acquire a connection for exclusive use; :meth:`release` or :meth:`discard` it afterwards.

        Raises:
            StoreUnavailable: none became free in time, or the pool is closed.
        """
        self._check_open()
        if self._free_slots:
            self._free_slots -= 1
        else:
            try:
                await self._wait_for_slot(self._wait_seconds)
            except TimeoutError:
                reason = f"all {self._size} connections were busy for {self._wait_seconds:g} s"
                raise StoreUnavailable("postgresql", reason) from None
        try:
            self._check_open()
            return self._idle_connection() or await self._connect()
        except BaseException:
            self._release_slot()
            raise

    async def _wait_for_slot(self, seconds: float) -> None:
        """Wait for a slot that another task releases; first come, first served.

        Raises:
            TimeoutError: none was released in time.
        """
        loop = asyncio.get_running_loop()
        slot: asyncio.Future[None] = loop.create_future()
        self._waiting.append(slot)
        limit = loop.call_later(seconds, _time_out, slot)
        try:
            await slot
        except asyncio.CancelledError:
            # A wait that timed out in the same iteration of the event loop never got its slot.
            if slot.done() and not slot.cancelled() and slot.exception() is None:
                self._release_slot()
            raise
        finally:
            limit.cancel()

    def _release_slot(self) -> None:
        while self._waiting:
            slot = self._waiting.popleft()
            if not slot.done():
                slot.set_result(None)
                return
        self._free_slots += 1

    def _idle_connection(self) -> "Connection | None":
        """The most recently used idle connection that is still open."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("postgresql", "the store is closed")

    def release(self, connection: Connection) -> None:
        """Return a usable connection to the pool."""
        self._idle.append(connection)
        self._release_slot()

    def discard(self, connection: Connection) -> None:
        """Terminate a connection in an unknown state."""
        connection.terminate()
        self._release_slot()

    def discard_idle(self) -> None:
        """Terminate all idle connections, as the server is probably gone."""
        while self._idle:
            self._idle.pop().terminate()

    async def close(self) -> None:
        """Wait for running statements, up to a timeout, and close all connections."""
        self._closed = True
        taken = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while taken < self._size:
                    if self._free_slots:
                        self._free_slots -= 1
                    else:
                        await self._wait_for_slot(CLOSE_SECONDS)
                    taken += 1
        for _ in range(taken):
            self._release_slot()
        while self._idle:
            connection = self._idle.pop()
            try:
                await connection.close(timeout=CLOSE_SECONDS)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                connection.terminate()


def _time_out(slot: "asyncio.Future[None]") -> None:
    if not slot.done():
        slot.set_exception(TimeoutError())


class PooledConnection:
    """Context with a pooled connection; it is discarded after any error that may have left it in an unknown state."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def __aenter__(self) -> Connection:
        """Acquire it."""
        self._connection = await self._pool.acquire()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, where: TracebackType | None
    ) -> None:
        """Release or discard it."""
        connection = self._connection
        refused = isinstance(problem, asyncpg.PostgresError | WenmaiError)
        if problem is None or (refused and not (connection.is_closed() or connection.is_in_transaction())):
            self._pool.release(connection)
        else:
            self._pool.discard(connection)
