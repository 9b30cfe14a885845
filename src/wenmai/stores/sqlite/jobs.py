"""Work that waits in a lane for its thread, and what became of it."""

import asyncio
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import apsw

from wenmai.stores.sqlite.reported_errors import unavailable

Work = Callable[[apsw.Connection], Any]


class Job(NamedTuple):
    """Work that waits; ``since`` is when it was submitted, by the monotonic clock."""

    future: asyncio.Future[Any]
    work: Work
    since: float


class Outcome(NamedTuple):
    """What became of a job: an error, or else a result."""

    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


Lane: TypeAlias = queue.SimpleQueue[Job | None]
"""Ends with None."""


def failed(jobs: Sequence[Job], problem: Exception) -> list[Outcome]:
    """The same problem for each of the jobs; what SQLite reports becomes our error."""
    error = unavailable(problem) if isinstance(problem, apsw.Error) else problem
    return [Outcome(job.future, None, error) for job in jobs]


def deliver(outcomes: list[Outcome]) -> None:
    """Hand the outcomes to those who await them; in the event loop's thread."""
    for future, result, error in outcomes:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)


def batches(lane: Lane, most: int) -> Iterator[list[Job]]:
    """What waits in the lane, again and again, until the lane is closed."""
    while True:
        jobs = []
        job = lane.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == most:
                break
            try:
                job = lane.get_nowait()
            except queue.Empty:
                break
        if jobs:
            yield jobs
        if job is None:
            return
