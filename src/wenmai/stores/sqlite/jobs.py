"""Jobs queued for a connection thread, and their outcomes."""

import asyncio
import threading
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


class Delivery:
    """Resolves futures in the event loop's thread; the loop is woken once for all outcomes that wait for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = threading.Lock()
        self._waiting: list[Outcome] = []

    def add(self, outcomes: Sequence[Outcome]) -> None:
        """Resolve the futures soon; from any thread."""
        with self._lock:
            is_first = not self._waiting
            self._waiting += outcomes
        if is_first and outcomes:
            self._loop.call_soon_threadsafe(self._resolve)

    def _resolve(self) -> None:
        with self._lock:
            outcomes, self._waiting = self._waiting, []
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
