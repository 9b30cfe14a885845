"""The pool of connections: a bound that holds, and a place that is never lost."""

import asyncio
import time
from typing import cast

import pytest

from wenmai.errors import StoreUnavailable
from wenmai.stores.postgresql.pool import Connection, Pool


class Line:
    """What the pool asks of a connection."""

    def __init__(self) -> None:
        self.ended = False

    def is_closed(self) -> bool:
        """Whether it has ended."""
        return self.ended

    def terminate(self) -> None:
        """End it."""
        self.ended = True

    async def close(self, *, timeout: float) -> None:  # noqa: ASYNC109 — as the driver's
        """End it."""
        assert timeout > 0
        self.ended = True


def pool_of(size: int, *, wait_seconds: float = 5.0) -> tuple[Pool, list[Line]]:
    """A pool, and all that it has opened."""
    lines: list[Line] = []

    async def connect() -> Connection:
        lines.append(Line())
        return cast("Connection", lines[-1])

    return Pool(connect, size=size, wait_seconds=wait_seconds), lines


async def test_no_more_than_the_size_are_opened_and_they_are_kept() -> None:
    """Ten tasks on two connections: two are opened, and each task has one alone."""
    pool, lines = pool_of(2)
    lent: list[Connection] = []

    async def work() -> None:
        connection = await pool.take()
        assert connection not in lent
        lent.append(connection)
        await asyncio.sleep(0)
        lent.remove(connection)
        pool.give(connection)

    await asyncio.gather(*(work() for _ in range(10)))
    assert len(lines) == 2


async def test_who_has_waited_longest_is_next() -> None:
    """Places go round in the order of asking, and nobody who comes later gets in between."""
    pool, _ = pool_of(1)
    served: list[int] = []
    held = await pool.take()

    async def work(number: int) -> None:
        connection = await pool.take()
        served.append(number)
        pool.give(connection)

    waiting = [asyncio.create_task(work(number)) for number in range(3)]
    await asyncio.sleep(0)
    pool.give(held)
    late = asyncio.create_task(work(3))
    await asyncio.gather(*waiting, late)
    assert served == [0, 1, 2, 3]


async def test_a_wait_ends_within_its_bound() -> None:
    """When none becomes free in time the task is told so, and its place in the queue is nobody's loss."""
    pool, _ = pool_of(1, wait_seconds=0.01)
    held = await pool.take()
    with pytest.raises(StoreUnavailable, match=r"all 1 connections were busy for 0.01 s"):
        await pool.take()
    pool.give(held)
    assert await pool.take() is held


@pytest.mark.parametrize("given_before", [False, True], ids=["while it waits", "as it is given the place"])
async def test_a_cancelled_task_keeps_no_place(*, given_before: bool) -> None:
    """Also if the place was handed to the task at the moment when it was cancelled."""
    pool, _ = pool_of(1, wait_seconds=1.0)
    held = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    if given_before:
        pool.give(held)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    if not given_before:
        pool.give(held)
    assert await pool.take() is held


async def test_a_wait_that_is_cancelled_at_its_bound_gives_back_no_place() -> None:
    """Limit and cancellation in one round of the loop: the place was never given, so there is none more afterwards."""
    pool, _ = pool_of(1, wait_seconds=0.01)
    held = await pool.take()
    waiting = asyncio.create_task(pool.take())
    await asyncio.sleep(0)
    time.sleep(0.02)  # noqa: ASYNC251 — the loop is late
    for _ in range(2):
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    with pytest.raises(StoreUnavailable):
        await pool.take()
    pool.give(held)
    assert await pool.take() is held


async def test_closing_waits_for_what_runs() -> None:
    """A connection that is lent is closed once it is back; who comes then is refused."""
    pool, lines = pool_of(2)
    held = await pool.take()
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable, match="closed"):
        await pool.take()
    assert not lines[0].ended
    pool.give(held)
    await closing
    assert lines[0].ended
