"""Checkpoints: the write-ahead log is copied into the database beside the writer, and starts over before it is long.

A thread copies while commits go on (``PASSIVE``, which waits for nothing). It cannot finish under load, so the writer
finishes it between two commits. The log starts over at a moment without reads; where there is none, the writer pauses
the reads of this process and waits for those of others, a bounded time, once in so much growth.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import apsw

from wenmai.errors import StoreUnavailable
from wenmai.stores.sqlite.opened_file import OpenedFile

_log = logging.getLogger(__name__)

BACKGROUND_PAGES = 1_000
"""SQLite's own default: about 4 MB of log are copied into the database at a time."""

FORCED_PAGES = 2_000
"""At this length of the log the writer itself finishes the copying, little by then, so that the log starts over."""

RESTART_PAGES = 8_000
"""About 32 MB: at this length, and after as much growth again, the writer pauses the reads."""

PAUSE_SECONDS = 0.5
"""How long it waits for the reads of this process that are running; new ones wait for it meanwhile."""

RESTART_MILLISECONDS = 100
"""How long it then waits for the reads of other processes, which cannot be paused."""

LOG_BYTES_KEPT = 16 << 20
"""Of the log's file when it starts over; a longer one is cut."""


class Reads:
    """The reads of this process: ``with reads:`` runs some, unless the writer has paused them."""

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
        """Hold new reads back; True if those that were running have ended in time."""
        with self._changed:
            self._paused = True
            ended = self._changed.wait_for(lambda: self._running == 0, PAUSE_SECONDS)
        try:
            yield ended
        finally:
            with self._changed:
                self._paused = False
                self._changed.notify_all()


class Checkpoints:
    """The checkpoints of one file; :meth:`after_commit` is for the writer's thread, :meth:`close` for any.

    Attributes:
        reads: what the read lanes run their work in.
    """

    def __init__(self, writer: apsw.Connection, background: apsw.Connection, file: OpenedFile) -> None:
        self._writer = writer
        self._file = file
        self.reads = Reads()
        self._pages = 0
        self._restart_at = RESTART_PAGES
        self._copying = threading.Lock()
        self._log_grew = threading.Event()
        self._closing = False
        writer.wal_autocheckpoint(0)
        writer.execute(f"PRAGMA journal_size_limit = {LOG_BYTES_KEPT}")
        writer.set_wal_hook(self._committed)
        self.thread = threading.Thread(
            target=self._copy_for_ever, args=(background,), name="wenmai-checkpoint", daemon=True
        )
        self.thread.start()

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def after_commit(self) -> None:
        """Copy what the length of the log asks for; only of files that are still the opened ones."""
        if self._pages >= self._restart_at:
            self._restart()
        elif self._pages > FORCED_PAGES:
            _checkpoint(self._writer)
        if self._pages >= BACKGROUND_PAGES:
            self._log_grew.set()
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
        """Let the thread end."""
        self._closing = True
        self._log_grew.set()

    def _copy_for_ever(self, connection: apsw.Connection) -> None:
        copied = 0
        while True:
            self._log_grew.wait()
            if self._closing:
                break
            self._log_grew.clear()
            pages = self._pages
            if pages < copied:
                copied = 0
            if pages - copied >= BACKGROUND_PAGES and self._file.lost is None:
                with self._copying:
                    copied = _checkpoint(connection)
        close(connection, self._file)


def close(connection: apsw.Connection, file: OpenedFile) -> None:
    """Close a connection; a log that is not the file's any more is not copied into it."""
    try:
        file.check()
    except StoreUnavailable:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def _checkpoint(connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> int:
    """Copy what can be copied; how many pages of the log are in the database now."""
    try:
        return connection.wal_checkpoint(mode=mode)[1]
    except apsw.BusyError:
        return 0  # another connection is at it, or reads hold the log for longer than may be waited
    except apsw.Error:
        _log.exception("checkpoint failed; the data is safe in the log, which goes on growing")
        return 0
