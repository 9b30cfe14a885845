"""The queue of background work: bounded in every state, and quiet when everything fails."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from wenmai.errors import SessionNotFound, StoreUnavailable
from wenmai.resilience import work_queue
from wenmai.resilience.background import BackgroundTasks
from wenmai.resilience.degradation import collected_degradation, note_degraded
from wenmai.resilience.work_queue import WorkQueue

Work = Callable[[int], Awaitable[None]]


@pytest.fixture
async def queue() -> AsyncIterator[Callable[[Work], WorkQueue[int]]]:
    """Makes queues of two keys at a time and ten that wait."""
    async with AsyncExitStack() as closing:

        def make(work: Work) -> WorkQueue[int]:
            tasks = BackgroundTasks()
            made = WorkQueue("testing", work, tasks, concurrency=2, capacity=10)
            closing.push_async_callback(tasks.stop)
            closing.callback(made.close)
            return made

        yield make


async def test_keys_that_wait_for_a_retry_count_as_waiting(queue: Callable[[Work], WorkQueue[int]]) -> None:
    """However many keys fail, few are kept, and the sweeper finds the others."""

    async def failing(_: int) -> None:
        raise StoreUnavailable("documents", "gone")

    failed = queue(failing)
    for key in range(100):
        failed.submit(key)
        await asyncio.sleep(0)
    assert failed.is_full
    assert failed.dropped
    assert len(failed.pending()) <= 12


async def test_a_failing_store_is_logged_once_in_a_while(
    queue: Callable[[Work], WorkQueue[int]], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not for each key and attempt; each kind of failure is."""

    async def failing(key: int) -> None:
        raise StoreUnavailable("documents", "gone") if key else RuntimeError("a bug")

    with caplog.at_level(logging.WARNING):
        failed = queue(failing)
        for key in (1, 2, 3, 0, 4):
            failed.submit(key)
            await asyncio.sleep(0.001)
        assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR"]
        monkeypatch.setattr(work_queue, "LOG_SECONDS", 0.0)
        failed.submit(5)
        await asyncio.sleep(0.001)
    assert len(caplog.records) == 3
    assert failed.failures == 6


async def test_work_that_is_cancelled_does_not_stop_the_queue(queue: Callable[[Work], WorkQueue[int]]) -> None:
    """A library that it calls may cancel it; the keys behind it run."""
    done: list[int] = []

    async def work(key: int) -> None:
        if key < 2:
            raise asyncio.CancelledError
        done.append(key)

    cancelled = queue(work)
    for key in range(4):
        cancelled.submit(key)
    async with asyncio.timeout(10):
        while not cancelled.is_idle:  # noqa: ASYNC110 — no event says so
            await asyncio.sleep(0.001)
    assert done == [2, 3]


async def test_nothing_is_remembered_of_a_key_that_was_deleted(
    queue: Callable[[Work], WorkQueue[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a failure and a retry."""
    monkeypatch.setattr(work_queue, "FIRST_RETRY_SECONDS", 0.001)
    problems = [StoreUnavailable("documents", "gone"), SessionNotFound("s")]

    async def work(_: int) -> None:
        raise problems.pop(0)

    deleted = queue(work)
    deleted.submit(1)
    async with asyncio.timeout(10):
        while deleted.pending():  # noqa: ASYNC110 — no event says so
            await asyncio.sleep(0.001)
    assert problems == []
    assert deleted._attempts == {}


async def test_background_work_does_not_belong_to_the_request_that_started_it(
    queue: Callable[[Work], WorkQueue[int]],
) -> None:
    """What fails in it is not a degradation of that request."""

    async def work(_: int) -> None:
        note_degraded("redis")

    started = queue(work)
    with collected_degradation() as names:
        started.submit(1)
        async with asyncio.timeout(10):
            while not started.is_idle:  # noqa: ASYNC110 — no event says so
                await asyncio.sleep(0.001)
    assert names == {}


async def test_the_next_key_waits_for_the_rest_unless_it_hurries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many keys at once leave the process to its requests; whoever waits for them ends the rest."""
    monkeypatch.setattr(work_queue, "LONGEST_REST_SECONDS", 3600.0)
    done: list[int] = []

    async def work(key: int) -> None:
        await asyncio.sleep(0.001)
        done.append(key)

    tasks = BackgroundTasks()
    resting = WorkQueue("testing", work, tasks, concurrency=1, capacity=10, rest=1e9)
    resting.rest_after(1.0)  # for work elsewhere
    for key in (1, 2, 3):
        resting.submit(key)
    await tasks.join()
    assert done == []
    resting.hurry()
    await tasks.join()
    await asyncio.sleep(0.01)
    assert (done, sorted(resting.pending())) == ([1], [2, 3])
    resting.hurry()
    await tasks.join()
    assert (done, sorted(resting.pending())) == ([1, 2], [3])
    resting.close()
    await tasks.stop()


async def test_keys_that_come_faster_than_rests_end_do_not_wait_ever_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rests become shorter the more keys wait, so that all together rest for a bounded time."""
    monkeypatch.setattr(work_queue, "LONGEST_REST_SECONDS", 3600.0)
    monkeypatch.setattr(work_queue, "RESTED_SECONDS", 0.05)
    last = asyncio.Event()

    async def work(key: int) -> None:
        if key == 99:
            last.set()

    tasks = BackgroundTasks()
    resting = WorkQueue("testing", work, tasks, concurrency=1, capacity=1000, rest=1e9)
    for key in range(100):
        resting.submit(key)
    await asyncio.wait_for(last.wait(), 30)
    resting.close()
    await tasks.stop()


async def test_work_elsewhere_makes_a_rest_longer() -> None:
    """Else what a run causes in other queues would take the process; a slow model holds nothing up for long."""

    async def work(_: int) -> None:
        pass

    tasks = BackgroundTasks()
    resting = WorkQueue("testing", work, tasks, concurrency=1, capacity=1000, rest=1e9)
    resting.submit(1)
    await tasks.join()
    for worked, longer in ((0.01, 0.09), (60.0, work_queue.LONGEST_REST_SECONDS)):
        before = max(timer.when() for timer in resting._resting)
        resting.rest_after(worked)
        assert max(timer.when() for timer in resting._resting) - before == pytest.approx(longer, abs=0.02)
    resting.close()
    await tasks.stop()
