"""Threads that own SQLite connections, so that the event loop never blocks on the disk.

One writer thread does group commit: it runs all queued jobs in one transaction and commits once, so that concurrent
writers share the cost of an fsync. Two reader threads run short reads, each in its own snapshot.

A job's work is a function of a connection. The work of a write may raise a :class:`~wenmai.errors.WenmaiError` only
before its first write (a refusal). Any other error rolls the transaction back, and the jobs of the batch are retried
one by one, so that a failed job affects no other.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from wenmai.errors import StoreUnavailable, WenmaiError
from wenmai.stores.sqlite.checkpoints import Checkpointer, close
from wenmai.stores.sqlite.file_identity import FileIdentity
from wenmai.stores.sqlite.jobs import Delivery, Job, JobQueue, Outcome, batches, failed

T = TypeVar("T")

READERS = 2
WRITES_PER_COMMIT = 512
READS_PER_BATCH = 8
"""Results are delivered to the event loop in batches; small, so that a long read does not delay many short ones."""

CACHE_KIB = 16_384
"""Pages that a connection keeps at most: a search reads hundreds of entries, all over the table, and what indexes a
message changes as many; those that do not fit are written to the log before the commit, and once more after it."""

MAX_QUEUED = 10_000
"""Most jobs in a queue; further ones are refused, so that a slow disk does not exhaust memory."""

TIMEOUT_GROUP_SECONDS = 0.01
"""Writes submitted this close together are refused together when the file stays locked."""

BATCH_ROWS = 1_000
"""Rows per transaction of a long removal, so that other writes can run in between."""


def fetch(connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """All rows of a statement."""
    return connection.execute(sql, bindings).fetchall()


class ConnectionThreads:
    """The writer thread and reader threads of one file.

    A write waits for other processes for the busy timeout that ``connect`` sets.

    Attributes:
        commits: number of commits of the writer so far.
    """

    def __init__(self, connect: Callable[[], apsw.Connection]) -> None:
        self._loop = asyncio.get_running_loop()
        self._delivery = Delivery(self._loop)
        self._writes = JobQueue()
        self._reads = JobQueue()
        self._closing = False
        self.commits: int = 0
        writer = connect()
        self._busy_seconds: float = fetch(writer, "PRAGMA busy_timeout")[0][0] / 1000
        fetch(writer, "SELECT 1 FROM sqlite_schema LIMIT 1")  # opens the write-ahead log, if nothing has yet
        fetch(writer, "PRAGMA temp_store = MEMORY")  # for the journal of a statement that writes many rows
        self._file = FileIdentity(writer)
        self._checkpoints = Checkpointer(writer, connect(), self._file)
        writer.set_busy_timeout(0)  # from now on each write waits for its own remaining time
        readers = [connect() for _ in range(READERS)]
        for connection in (writer, *readers):
            fetch(connection, f"PRAGMA cache_size = -{CACHE_KIB}")
        self._threads = [
            threading.Thread(target=self._run_writer, args=(writer,), name="wenmai-writer", daemon=True),
            *(
                threading.Thread(target=self._run_reader, args=(reader,), name="wenmai-reader", daemon=True)
                for reader in readers
            ),
        ]
        for thread in self._threads:
            thread.start()

    def write(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Run the work in a transaction; the future is done when it is on disk."""
        return self._submit(self._writes, work)

    async def write_in_batches(self, work: Callable[[apsw.Connection, int], int]) -> int:
        """Repeat the work in separate transactions, between which other writes can run, until none is left.

        Args:
            work: handles at most the given number of rows and returns how many it handled; fewer means finished.

        Returns:
            The total number of rows handled.
        """
        total, done = 0, BATCH_ROWS
        while done == BATCH_ROWS:
            done = await self.write(lambda connection: work(connection, BATCH_ROWS))
            total += done
        return total

    def read(self, work: Callable[[apsw.Connection], T]) -> "asyncio.Future[T]":
        """Run the work on a reader's connection, in one snapshot."""
        return self._submit(self._reads, work)

    async def ping(self) -> None:
        """Return if the file can be read and is the one that was opened.

        Raises:
            StoreUnavailable: it cannot be read, or was deleted or replaced.
        """
        await self.read(lambda connection: fetch(connection, "SELECT 1 FROM sqlite_schema LIMIT 1"))
        self._file.check()

    def _submit(self, queue: JobQueue, work: Callable[[apsw.Connection], Any]) -> "asyncio.Future[Any]":
        if self._closing:
            raise StoreUnavailable("sqlite", "the store is closed")
        if self._file.lost is not None:
            raise StoreUnavailable("sqlite", self._file.lost)
        if queue.qsize() >= MAX_QUEUED:
            raise StoreUnavailable("sqlite", f"{MAX_QUEUED} operations are waiting for the file already")
        future: asyncio.Future[Any] = self._loop.create_future()
        queue.put(Job(future, work, time.monotonic()))
        return future

    async def close(self) -> None:
        """Finish the queued jobs and close the connections; closing the last one checkpoints the log."""
        self._closing = True
        self._file.close()
        self._writes.put(None)
        for _ in range(READERS):
            self._reads.put(None)
        self._checkpoints.close()
        await asyncio.to_thread(self._join)

    def _join(self) -> None:
        for thread in (*self._threads, self._checkpoints.thread):
            thread.join()

    def _run_writer(self, connection: apsw.Connection) -> None:
        for jobs in batches(self._writes, WRITES_PER_COMMIT):
            self._write_batch(connection, jobs)
            self._checkpoints.after_commit()
        close(connection, self._file)

    def _write_batch(self, connection: apsw.Connection, jobs: list[Job]) -> None:
        """Run the jobs in one transaction, or one by one if one of them fails; deliver their outcomes."""
        begun = self._begin(connection, jobs)
        if not begun:
            return
        try:
            self._delivery.add(self._commit(connection, begun))
        except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if len(begun) == 1 or self._file.lost is not None:
                self._delivery.add(failed(begun, problem))
                return
            for job in begun:
                self._write_batch(connection, [job])

    def _begin(self, connection: apsw.Connection, jobs: list[Job]) -> list[Job]:
        """Begin a transaction; return the jobs that were not refused."""
        try:
            if self._file.lost is not None:
                self._file.check()
            connection.execute("BEGIN IMMEDIATE")
        except apsw.BusyError:
            return self._begin_before_timeout(connection, jobs)
        except Exception as problem:  # noqa: BLE001 — handed to the callers, who await the futures
            self._delivery.add(failed(jobs, problem))
            return []
        return jobs

    def _begin_before_timeout(self, connection: apsw.Connection, jobs: list[Job]) -> list[Job]:
        """Begin while another process holds the lock; jobs whose busy timeout has passed are refused."""
        try:
            while jobs:
                first = jobs[0].submitted_at
                left = first + self._busy_seconds - time.monotonic()
                connection.set_busy_timeout(max(0, int(left * 1000)))
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except apsw.BusyError as problem:
                    refused = [job for job in jobs if job.submitted_at <= first + TIMEOUT_GROUP_SECONDS]
                    jobs = jobs[len(refused) :]
                    self._delivery.add(failed(refused, problem))
                else:
                    break
        except apsw.Error as problem:
            self._delivery.add(failed(jobs, problem))
            return []
        finally:
            connection.set_busy_timeout(0)
        return jobs

    def _commit(self, connection: apsw.Connection, jobs: list[Job]) -> list[Outcome]:
        """Run the jobs and commit; raise if one fails, or if the file was deleted or replaced."""
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

    def _run_reader(self, connection: apsw.Connection) -> None:
        for jobs in batches(self._reads, READS_PER_BATCH):
            with self._checkpoints.reads:
                outcomes = _read(connection, jobs)
            self._delivery.add(outcomes)
        close(connection, self._file)


def _read(connection: apsw.Connection, jobs: Sequence[Job]) -> list[Outcome]:
    """Run the works in a transaction, so that all their statements see one snapshot, later than their submission."""
    outcomes = []
    for job in jobs:
        try:
            if not connection.in_transaction:  # the first one, or after an error that has ended it
                connection.execute("BEGIN")
            outcomes.append(Outcome(job.future, job.work(connection), None))
        except Exception as problem:  # noqa: BLE001 — handed to the caller, who awaits the future
            outcomes += failed([job], problem)
    try:
        if connection.in_transaction:
            connection.execute("COMMIT")
    except apsw.Error as problem:
        return failed(jobs, problem)
    return outcomes
