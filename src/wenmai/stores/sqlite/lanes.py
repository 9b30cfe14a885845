"""Threads that own SQLite connections, so that the event loop never waits for a disk.

One write lane: it takes all the work that waits, does it in one transaction and commits once, so that concurrent
writers share the price of an fsync. Two read lanes serve short reads in turn, each in one snapshot.

Work is a function of a connection. A writer's work may raise a :class:`~wenmai.errors.WenmaiError` only before its
first write (it refuses); any other error rolls the transaction back and the batch is done again one by one, so that
the work that failed harms no other.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from wenmai.errors import StoreUnavailable, WenmaiError
from wenmai.stores.sqlite.checkpoints import Checkpoints, close
from wenmai.stores.sqlite.jobs import Job, Lane, Outcome, batches, deliver, failed
from wenmai.stores.sqlite.opened_file import OpenedFile

T = TypeVar("T")

READERS = 2
WRITES_PER_COMMIT = 512
READS_PER_WAKE = 8
"""Results are handed to the event loop in groups, but a long read must not hold up many short ones."""

WAITING = 10_000
"""Pieces of work that may wait in a lane; more are refused, so that a slow disk does not fill the memory."""

SAME_MOMENT = 0.01
"""Seconds; writes that came so close together are refused together when the file cannot be had in time."""

SLICE = 1_000
"""Rows that one transaction of a long removal takes, so that other writes need not wait for all of it."""


def fetch(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    return connection.execute(sql, bindings).fetchall()


class Lanes:
    """The write lane and the read lanes of one file; a writer waits for other processes as long as ``connect`` says.

    Attributes:
        commits: of the write lane so far.
    """

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._writes = Lane()
        self._reads = Lane()
        self._closing = False
        self.commits = 0
        writer = connect()
        self._patience: float = fetch(writer, "PRAGMA busy_timeout")[0][0] / 1000
        fetch(writer, "SELECT 1 FROM sqlite_schema LIMIT 1")  # opens the log, if nothing has yet
        self._file = OpenedFile(writer)
        self._checkpoints = Checkpoints(writer, connect(), self._file)
        writer.set_busy_timeout(0)  # from now on each write waits for as long as it has left
        readers = [connect() for _ in range(READERS)]
        self._threads = [
            threading.Thread(target=self._write_lane, args=(writer,), name="wenmai-writer", daemon=True),
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

    async def write_in_slices(self, work: Callable[[apsw.Connection, int], int]) -> int:
        """Repeat the work, each time in a transaction that other writes may come before, until there is none left.

        Args:
            work: handles at most so many rows, and returns how many it did; fewer mean that it is finished.

        Returns:
            How many rows it handled in all.
        """
        total, done = 0, SLICE
        while done == SLICE:
            done = await self.write(lambda connection: work(connection, SLICE))
            total += done
        return total

    def read(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Do the work on a reader's connection, in one snapshot."""
        return self._submit(self._reads, work)

    async def ping(self) -> None:
        """Return if the file can be read, and is the one that was opened.

        Raises:
            StoreUnavailable: it cannot, or was deleted or replaced.
        """
        await self.read(lambda connection: fetch(connection, "SELECT 1 FROM sqlite_schema LIMIT 1"))
        self._file.check()

    def _submit(self, lane: Lane, work: Callable[[apsw.Connection], Any]) -> "asyncio.Future[Any]":
        if self._closing:
            raise StoreUnavailable("sqlite", "the store is closed")
        if self._file.lost is not None:
            raise StoreUnavailable("sqlite", self._file.lost)
        if lane.qsize() >= WAITING:
            raise StoreUnavailable("sqlite", f"{WAITING} operations are waiting for the file already")
        future: asyncio.Future[Any] = self._loop.create_future()
        lane.put(Job(future, work, time.monotonic()))
        return future

    async def close(self) -> None:
        """Finish the work that waits and close the connections; the last one folds the log into the database."""
        self._closing = True
        self._file.close()
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        self._checkpoints.close()
        for thread in (*self._threads, self._checkpoints.thread):
            await asyncio.to_thread(thread.join)

    def _hand_over(self, outcomes: list[Outcome]) -> None:
        if outcomes:
            self._loop.call_soon_threadsafe(deliver, outcomes)

    def _write_lane(self, connection: apsw.Connection) -> None:
        for jobs in batches(self._writes, WRITES_PER_COMMIT):
            self._write_together(connection, jobs)
            self._checkpoints.after_commit()
        close(connection, self._file)

    def _write_together(self, connection: apsw.Connection, jobs: list[Job]) -> None:
        """Do the jobs in one transaction, or one by one if one of them fails; hand over what became of them."""
        waiting = self._begin(connection, jobs)
        if not waiting:
            return
        try:
            self._hand_over(self._commit(connection, waiting))
        except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(waiting) == 1 or self._file.lost is not None:
                self._hand_over(failed(waiting, problem))
                return
            for job in waiting:
                self._write_together(connection, [job])

    def _begin(self, connection: apsw.Connection, jobs: list[Job]) -> list[Job]:
        """Begin a transaction; the jobs that did not have to be refused."""
        try:
            if self._file.lost is not None:
                self._file.check()
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return self._begin_in_time(connection, jobs)
        except Exception as problem:  # noqa: BLE001 — handed to the callers, who await the futures
            self._hand_over(failed(jobs, problem))
            return []
        return jobs

    def _begin_in_time(self, connection: apsw.Connection, jobs: list[Job]) -> list[Job]:
        """Begin while another process holds the file; jobs that have waited for as long as they may are refused."""
        try:
            while jobs:
                first = jobs[0].since
                left = first + self._patience - time.monotonic()
                connection.set_busy_timeout(max(0, int(left * 1000)))
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except apsw.BusyError as problem:
                    refused = [job for job in jobs if job.since <= first + SAME_MOMENT]
                    jobs = jobs[len(refused) :]
                    self._hand_over(failed(refused, problem))
                else:
                    break
        except apsw.Error as problem:
            self._hand_over(failed(jobs, problem))
            return []
        finally:
            connection.set_busy_timeout(0)
        return jobs

    def _commit(self, connection: apsw.Connection, jobs: list[Job]) -> list[Outcome]:
        """What became of the jobs, which are on disk; raises if one fails, or if they went into a file that is gone."""
        outcomes = []
        for job in jobs:
            try:
                outcomes.append(Outcome(job.future, job.work(connection), None))
            except WenmaiError as refusal:
                outcomes.append(Outcome(job.future, None, refusal))
        connection.execute("COMMIT")
        self.commits += 1
        self._file.check()
        return outcomes

    def _read_lane(self, connection: apsw.Connection) -> None:
        for jobs in batches(self._reads, READS_PER_WAKE):
            with self._checkpoints.reads:
                outcomes = [_read(connection, job) for job in jobs]
            self._hand_over(outcomes)
        close(connection, self._file)


def _read(connection: apsw.Connection, job: Job) -> Outcome:
    """Do the work in a transaction of its own, so that all its statements see the same commits."""
    try:
        connection.execute("BEGIN")
        try:
            return Outcome(job.future, job.work(connection), None)
        finally:
            if connection.in_transaction:
                connection.execute("COMMIT")
    except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
        return failed([job], problem)[0]
