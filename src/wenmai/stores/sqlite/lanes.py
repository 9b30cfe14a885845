"""Threads that own SQLite connections, so that the event loop never waits for a disk.

One write lane: it takes all the work that waits, does it in one transaction and commits once, so that concurrent
writers share the price of an fsync. Two read lanes serve short reads in turn.

Work is a function of a connection. A writer's work may raise a :class:`~wenmai.errors.WenmaiError` only before its
first write (it refuses); any other error rolls the transaction back and the batch is done again one by one, so that
the work that failed harms no other.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from wenmai.errors import StoreUnavailable, WenmaiError

T = TypeVar("T")
Work = Callable[[apsw.Connection], Any]

_log = logging.getLogger(__name__)

READERS = 2
WRITES_PER_COMMIT = 512
READS_PER_WAKE = 8
"""Results are handed to the event loop in groups, but a long read must not hold up many short ones."""

CHECKPOINT_PAGES = 1000
"""SQLite's own default: about 4 MB of log are copied into the database at a time."""

FORCED_CHECKPOINT_PAGES = 2_000
"""At this length of the log the writer itself finishes the copying, little by then, so that the log starts over."""


class _Job(NamedTuple):
    future: asyncio.Future[Any]
    work: Work


class _Outcome(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: BaseException | None


_ADVICE: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.CantOpenError, "does its folder exist, and may this process write there?"),
    (apsw.ReadOnlyError, "may this process write the file and in its folder?"),
    (apsw.FullError, "make room on the disk"),
    (apsw.IOError, "is the disk full or failing?"),
    (apsw.BusyError, "another process holds it for too long"),
)
"""What to look at, by what SQLite reports."""


@contextmanager
def translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise what SQLite reports (busy, full, read-only, damaged) as :class:`StoreUnavailable`, naming a given file."""
    try:
        yield
    except apsw.Error as problem:
        raise _unavailable(problem, path) from problem


def _unavailable(problem: apsw.Error, path: Path | None = None) -> StoreUnavailable:
    said = str(problem) or type(problem).__name__
    advice = "".join(f"; {advice}" for kind, advice in _ADVICE if isinstance(problem, kind))
    return StoreUnavailable("sqlite", f"{path}: {said}{advice}" if path else f"{said}{advice}")


def fetch(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    return connection.execute(sql, bindings).fetchall()


class Lanes:
    """The write lane, the read lanes and the checkpointer of one file."""

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._writes: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._reads: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._log_grew = threading.Event()
        self._closing = False
        writer = connect()
        writer.wal_autocheckpoint(0)
        self._log_pages = 0
        writer.set_wal_hook(self._after_commit)
        readers = [connect() for _ in range(READERS)]
        self._threads = [
            threading.Thread(target=self._write_lane, args=(writer,), name="wenmai-writer", daemon=True),
            threading.Thread(target=self._checkpointer, args=(connect(),), name="wenmai-checkpoint", daemon=True),
            *(
                threading.Thread(target=self._read_lane, args=(reader,), name="wenmai-reader", daemon=True)
                for reader in readers
            ),
        ]
        for thread in self._threads:
            thread.start()

    def write(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Do the work in a transaction; the future is done when it is on disk."""
        return self._submit(self._writes, work)

    def read(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Do the work on a reader's connection."""
        return self._submit(self._reads, work)

    def _submit(self, lane: "queue.SimpleQueue[_Job | None]", work: Work) -> "asyncio.Future[Any]":
        if self._closing:
            raise StoreUnavailable("sqlite", "the store is closed")
        future: asyncio.Future[Any] = self._loop.create_future()
        lane.put(_Job(future, work))
        return future

    async def close(self) -> None:
        """Finish the work that waits and close the connections; the last one folds the log into the database."""
        self._closing = True
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        self._log_grew.set()
        for thread in self._threads:
            await asyncio.to_thread(thread.join)

    def _deliver(self, outcomes: list[_Outcome]) -> None:
        for future, result, error in outcomes:
            if future.done():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _write_lane(self, connection: apsw.Connection) -> None:
        for jobs in _batches(self._writes, WRITES_PER_COMMIT):
            self._loop.call_soon_threadsafe(self._deliver, _commit_together(connection, jobs))
            if self._log_pages > FORCED_CHECKPOINT_PAGES:
                _checkpoint(connection)
        connection.close()

    def _read_lane(self, connection: apsw.Connection) -> None:
        for jobs in _batches(self._reads, READS_PER_WAKE):
            outcomes = [_run(connection, job) for job in jobs]
            self._loop.call_soon_threadsafe(self._deliver, outcomes)
        connection.close()

    def _after_commit(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        if pages >= CHECKPOINT_PAGES:
            self._log_grew.set()
        return apsw.SQLITE_OK

    def _checkpointer(self, connection: apsw.Connection) -> None:
        """Copy the log into the database beside the writer, which would otherwise do it inside a commit."""
        copied = 0
        while True:
            self._log_grew.wait()
            if self._closing:
                break
            self._log_grew.clear()
            pages = self._log_pages
            if pages < copied:
                copied = 0
            if pages - copied >= CHECKPOINT_PAGES:
                copied = _checkpoint(connection)
        connection.close()


def _checkpoint(connection: apsw.Connection) -> int:
    """Copy what can be copied without waiting for anybody; how many pages of the log are in the database now."""
    try:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)[1]
    except apsw.BusyError:
        return 0  # another connection is at it
    except apsw.Error:
        _log.exception("checkpoint failed; the data is safe in the log, which goes on growing")
        return 0


def _batches(lane: "queue.SimpleQueue[_Job | None]", most: int) -> Iterator[list[_Job]]:
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


def _run(connection: apsw.Connection, job: _Job) -> _Outcome:
    try:
        with translated_errors():
            return _Outcome(job.future, job.work(connection), None)
    except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
        return _Outcome(job.future, None, problem)


def _commit_together(connection: apsw.Connection, jobs: list[_Job]) -> list[_Outcome]:
    try:
        connection.execute("BEGIN IMMEDIATE")
        outcomes = []
        for job in jobs:
            try:
                outcomes.append(_Outcome(job.future, job.work(connection), None))
            except WenmaiError as refusal:
                outcomes.append(_Outcome(job.future, None, refusal))
        connection.execute("COMMIT")
    except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if len(jobs) > 1:
            return [outcome for job in jobs for outcome in _commit_together(connection, [job])]
        if isinstance(problem, apsw.Error):
            problem = _unavailable(problem)
        return [_Outcome(jobs[0].future, None, problem)]
    return outcomes
