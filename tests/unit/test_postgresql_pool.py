"""The connection pool: its limit holds, and no slot is lost."""

import asyncio
import time
from typing import cast

import pytest

from wenmai.errors import StoreUnavailable
from wenmai.stores.postgresql.pool import Connection, Pool


class FakeConnection:
    """A fake connection with the methods that the pool uses."""

    def __init__(self) -> None:
        self.closed = False

    def is_closed(self) -> bool:
        """Whether it is closed."""
        return self.closed

    def terminate(self) -> None:
        """End it."""
        self.closed = True

    async def close(self, *, timeout: float) -> None:  # noqa: ASYNC109 — as the driver's
        """End it."""
        assert timeout > 0
        self.closed = True


def pool_of(size: int, *, wait_seconds: float = 5.0) -> tuple[Pool, list[FakeConnection]]:
    """A pool, and all connections that it has opened."""
    opened: list[FakeConnection] = []

    async def connect() -> Connection:
        opened.append(FakeConnection())
        return cast("Connection", opened[-1])

    return Pool(connect, size=size, wait_seconds=wait_seconds), opened


async def test_at_most_size_connections_are_opened_and_reused() -> None:
    """Ten tasks on two connections: two are opened, and each task uses one exclusively."""
    pool, opened = pool_of(2)
    in_use: list[Connection] = []

    async def work() -> None:
        connection = await pool.acquire()
        assert connection not in in_use
        in_use.append(connection)
        await asyncio.sleep(0)
        in_use.remove(connection)
        pool.release(connection)

    await asyncio.gather(*(work() for _ in range(10)))
    assert len(opened) == 2


async def test_waiters_are_served_in_order() -> None:
    """First come, first served; a later task does not overtake."""
    pool, _ = pool_of(1)
    served: list[int] = []
    held = await pool.acquire()

    async def work(number: int) -> None:
        connection = await pool.acquire()
        served.append(number)
        pool.release(connection)

    waiting = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    pool.release(held)
    late = asyncio.create_task(work(3))
    await asyncio.gather(*waiting, late)
    assert served == [0, 1, 2, 3]


async def test_a_wait_times_out() -> None:
    """If no connection becomes free in time, the task gets an error, and its place in the queue is released."""
    pool, _ = pool_of(1, wait_seconds=0.01)
    held = await pool.acquire()
    with pytest.raises(StoreUnavailable, match=r"all 1 connections were busy for 0.01 s"):
        await pool.acquire()
    pool.release(held)
    assert await pool.acquire() is held


@pytest.mark.parametrize("released_before", [False, True], ids=["while it waits", "as it gets the slot"])
async def test_a_cancelled_task_keeps_no_slot(*, released_before: bool) -> None:
    """Even if the task got the slot at the moment of its cancellation."""
    pool, _ = pool_of(1, wait_seconds=1.0)
    held = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    if released_before:
        pool.release(held)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not released_before:
        pool.release(held)
    assert await pool.acquire() is held


async def test_a_wait_cancelled_at_its_timeout_releases_no_slot() -> None:
    """Timeout and cancellation in one iteration of the loop: there is no additional slot afterwards."""
    pool, _ = pool_of(1, wait_seconds=0.01)
    held = await pool.acquire()
    waiting = asyncio.create_task(pool.acquire())
    await asyncio.sleep(0)
    time.sleep(0.02)  # noqa: ASYNC251 — the loop is late
    for _ in range(2):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(StoreUnavailable):
        await pool.acquire()
    pool.release(held)
    assert await pool.acquire() is held


async def test_closing_waits_for_acquired_connections() -> None:
    """An acquired connection is closed when it is released; new tasks are refused."""
    pool, opened = pool_of(2)
    held = await pool.acquire()
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="closed"):
        await pool.acquire()
    assert not opened[0].closed
    pool.release(held)
    await closing
    assert opened[0].closed
