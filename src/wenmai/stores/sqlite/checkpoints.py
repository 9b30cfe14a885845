"""Checkpoints: copying the write-ahead log (WAL) into the database, so that it restarts before it grows long.

A background thread copies while commits continue (``PASSIVE``, which never waits). It cannot finish under load, so the
writer finishes between two commits. The WAL restarts when no read is using it; if reads overlap all the time, the
writer pauses the reads of this process and waits for those of other processes, for a bounded time.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from wenmai.errors import StoreUnavailable
from wenmai.stores.sqlite.file_identity import FileIdentity

_log = logging.getLogger(__name__)

BACKGROUND_PAGES = 1_000
"""SQLite's default: about 4 MB of WAL are copied into the database at a time."""

FORCED_PAGES = 2_000
"""At this WAL length the writer itself finishes the checkpoint, with little left to copy, so the WAL restarts."""

RESTART_PAGES = 8_000
"""About 32 MB: at this WAL length, and after each further growth by as much, the writer pauses the reads."""

PAUSE_SECONDS = 0.5
"""How long the writer waits for running reads of this process; new reads wait meanwhile."""

RESTART_MILLISECONDS = 100
"""How long the writer then waits for reads of other processes, which cannot be paused."""

WAL_BYTES_KEPT = 16 << 20
"""Size to which the WAL file is truncated when it restarts."""


class ReadBarrier:
    """Barrier for the reads of this process: ``with barrier:`` runs reads, and waits while they are paused."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._paused = False

    def __enter__(self) -> None:
        with self._changed:
            while self._paused:
                self._changed.wait()
            self._running += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._running -= 1
            if self._paused:
                self._changed.notify_all()

    @contextmanager
    def paused(self) -> Iterator[bool]:
        """Block new reads; True if the running ones ended in time."""
        with self._changed:
            self._paused = True
            ended = self._changed.wait_for(lambda: self._running == 0, PAUSE_SECONDS)
        try:
            yield ended
        finally:
            with self._changed:
                self._paused = False
                self._changed.notify_all()


class Checkpointer:
    """Runs the checkpoints of one file; :meth:`after_commit` is for the writer's thread, :meth:`close` for any.

    Attributes:
        reads: barrier in which the reader threads run their work.
    """

    def __init__(self, writer: apsw.Connection, background: apsw.Connection, file: FileIdentity) -> None:
        self._writer = writer
        self._file = file
        self.reads = ReadBarrier()
        self._pages = 0
        self._restart_at = RESTART_PAGES
        self._copying = threading.Lock()
        self._wal_grew = threading.Event()
        self._closing = False
        writer.wal_autocheckpoint(0)
        writer.execute(f"PRAGMA journal_size_limit = {WAL_BYTES_KEPT}")
        writer.set_wal_hook(self._committed)
        self.thread = threading.Thread(target=self._run, args=(background,), name="wenmai-checkpoint", daemon=True)
        self.thread.start()

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def after_commit(self) -> None:
        """Checkpoint as the length of the WAL requires, unless the files were replaced."""
        if self._pages >= self._restart_at:
            self._restart()
        elif self._pages > FORCED_PAGES:
            _checkpoint(self._writer)
        if self._pages >= BACKGROUND_PAGES:
            self._wal_grew.set()
        else:
            self._restart_at = RESTART_PAGES

    def _restart(self) -> None:
        self._writer.set_busy_timeout(RESTART_MILLISECONDS)
        with self.reads.paused() as ended, self._copying:
            if ended:
                _checkpoint(self._writer, apsw.SQLITE_CHECKPOINT_RESTART)
        self._writer.set_busy_timeout(0)
        self._restart_at = self._pages + RESTART_PAGES

    def close(self) -> None:
        """Stop the thread."""
        self._closing = True
        self._wal_grew.set()

    def _run(self, connection: apsw.Connection) -> None:
        copied = 0
        while True:
            self._wal_grew.wait()
            if self._closing:
                break
            self._wal_grew.clear()
            pages = self._pages
            if pages < copied:
                copied = 0
            if pages - copied >= BACKGROUND_PAGES and self._file.lost is None:
                with self._copying:
                    copied = _checkpoint(connection)
        close(connection, self._file)


def close(connection: apsw.Connection, file: FileIdentity) -> None:
    """Close a connection; a WAL that no longer belongs to the file is not copied into it."""
    try:
        file.check()
    except StoreUnavailable:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def _checkpoint(connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
    """Copy as much as possible; return how many pages of the WAL are in the database now."""
    try:
        return connection.wal_checkpoint(mode=mode)[1]
    except apsw.BusyError:
        return 0  # another connection is checkpointing, or reads use the WAL beyond the timeout
    except apsw.Error:
        _log.exception("checkpoint failed; the data is safe in the write-ahead log, which keeps growing")
        return 0
