"""Jobs queued for a connection thread, and their outcomes."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias

import apsw

from wenmai.stores.sqlite.errors import unavailable

Work = Callable[[apsw.Connection], Any]


class Job(NamedTuple):
    """Queued work; ``submitted_at`` is by the monotonic clock."""

    future: asyncio.Future[Any]
    work: Work
    submitted_at: float


class Outcome(NamedTuple):
    """The result of a job, or its error."""

    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


JobQueue: TypeAlias = SimpleQueue[Job | None]
"""None closes the queue."""


def failed(jobs: Sequence[Job], problem: Exception) -> list[Outcome]:
    """The same error for each of the jobs; errors of SQLite become StoreUnavailable."""
    error = unavailable(problem) if isinstance(problem, apsw.Error) else problem
    return [Outcome(job.future, None, error) for job in jobs]


def deliver(outcomes: list[Outcome]) -> None:
    """Resolve the futures; runs in the event loop's thread."""
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def batches(queue: JobQueue, limit: int) -> Iterator[list[Job]]:
    """Batches of all queued jobs, until the queue is closed."""
    while True:
        jobs = []
        job = queue.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == limit:
                break
            try:
                job = queue.get_nowait()
            except Empty:
                break
        if jobs:
            yield jobs
        if job is None:
            return
