"""Bare sqlite3 with the durability that Wenmai promises: what keeps it can hardly be faster."""

import asyncio
import queue
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.contenders import WINDOW, RoleAndContent

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]

_TABLE = """
CREATE TABLE messages (
  session TEXT NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, content TEXT NOT NULL, at REAL NOT NULL,
  PRIMARY KEY (session, seq)
) WITHOUT ROWID"""
_LAST = "SELECT max(seq) FROM messages WHERE session = ?"
_INSERT = "INSERT INTO messages VALUES (?, ?, ?, ?, ?)"
_WINDOW = f"SELECT content FROM messages WHERE session = ? ORDER BY seq DESC LIMIT {WINDOW}"  # noqa: S608
SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def read_durability(connection: sqlite3.Connection) -> dict[str, str]:
    """What SQLite says of a connection."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    return {"journal_mode": mode, "synchronous": SYNCHRONOUS[synchronous]}


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    return connection


def _append(connection: sqlite3.Connection, session: str, messages: Sequence[RoleAndContent]) -> None:
    last = connection.execute(_LAST, (session,)).fetchone()[0] or 0
    now = time.time()
    rows = [(session, last + number, *message, now) for number, message in enumerate(messages, 1)]
    connection.executemany(_INSERT, rows)


def _window(connection: sqlite3.Connection, session: str) -> list[str]:
    newest_first = connection.execute(_WINDOW, (session,)).fetchall()
    return [content for (content,) in reversed(newest_first)]


def _count(connection: sqlite3.Connection, session: str) -> int:
    number: int = connection.execute("SELECT count(*) FROM messages WHERE session = ?", (session,)).fetchone()[0]
    return number


class DirectFloor:
    """One connection, called on the event loop; a commit per turn."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        self._append(session, messages)

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        self._append(session, [("user", question), ("assistant", answer)])
        return _window(self._connection, session)

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return _count(self._connection, session)

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return read_durability(self._connection)

    def _append(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        _append(self._connection, session, messages)
        self._connection.execute("COMMIT")


class SharedFloor:
    """A thread that does all that waits in one transaction and commits once: the fair floor for asyncio."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._jobs: queue.SimpleQueue[tuple[asyncio.Future[Any], Work] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._commit_for_ever, daemon=True)
        self._thread.start()

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        await self._do(lambda connection: _append(connection, session, messages))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""

        def work(connection: sqlite3.Connection) -> list[str]:
            _append(connection, session, [("user", question), ("assistant", answer)])
            return _window(connection, session)

        return await self._do(work)

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return await self._do(lambda connection: _count(connection, session))

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return await self._do(read_durability)

    def close(self) -> None:
        """Stop the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _do(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put((future, work))
        return future

    def _commit_for_ever(self) -> None:
        job = self._jobs.get()
        while job is not None:
            done = []
            self._connection.execute("BEGIN IMMEDIATE")
            while job is not None:
                future, work = job
                done.append((future, work(self._connection)))
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            self._connection.execute("COMMIT")
            self._loop.call_soon_threadsafe(_deliver, done)
            if job is not None:
                job = self._jobs.get()


def _deliver(done: Sequence[tuple["asyncio.Future[Any]", Any]]) -> None:
    for future, result in done:
        future.set_result(result)


@asynccontextmanager
async def direct(path: Path) -> AsyncIterator[DirectFloor]:
    """The floor of one task."""
    connection = _connect(path)
    connection.execute(_TABLE)
    yield DirectFloor(connection)
    connection.close()


@asynccontextmanager
async def shared(path: Path) -> AsyncIterator[SharedFloor]:
    """The floor of many tasks."""
    connection = _connect(path)
    connection.execute(_TABLE)
    floor = SharedFloor(connection)
    yield floor
    floor.close()
    connection.close()
