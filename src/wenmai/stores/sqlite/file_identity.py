"""Identity of the opened database file and its write-ahead log, to detect that one was deleted or replaced.

SQLite keeps writing to a deleted file, and everything written is lost when the process ends. A ``stat`` of the folder,
about 1 µs, shows whether an entry in it has changed; if so, each file is compared.
"""

import os
import time
from pathlib import Path

import apsw

from wenmai.errors import StoreUnavailable

_LOG_REPLACED = (
    "its write-ahead log was deleted or replaced while it was open, so the last commit is lost. The standard sqlite3 "
    "module does this when this process opens and closes the same file with it; use "
    "wenmai.stores.sqlite.query_readonly instead. Restart this process to open the store again"
)
_FILE_REPLACED = (
    "the file was deleted or replaced while it was open, so the last commit is lost. "
    "Put the right file in its place, then restart this process"
)

CTIME_GRANULARITY_NANOSECONDS = 3_000_000_000
"""Above the resolution of ctime (2 s on the coarsest file system): a newer ctime may hide a further change."""


class FileIdentity:
    """Device and inode of the files behind a connection, which must have opened the log already.

    Attributes:
        lost: the error message once a check has found a deleted or replaced file; final.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._path = connection.filename
        self._log = connection.filename_wal
        self._folder = os.path.dirname(self._path)  # noqa: PTH120 — a str, for each commit
        self._file_id, self._log_id = _identity(self._path), _identity(self._log)
        self._checked_folder: tuple[int, int, int] | None = None
        self.lost: str | None = None
        _open.add(self)

    def close(self) -> None:
        """Stop tracking; call it before the connections are closed, as closing the last one removes the log."""
        _open.discard(self)

    def is_at(self, path: Path) -> bool:
        """Whether the path names this file now."""
        return _identity(str(path)) == self._file_id

    def check(self) -> None:
        """Compare the files with those that were opened.

        Raises:
            StoreUnavailable: they were deleted or replaced, so further commits would be lost.
        """
        if self.lost is None:
            folder = _state(self._folder)
            if folder is not None and folder == self._checked_folder:
                return
            if _identity(self._path) != self._file_id:
                self.lost = f"{self._path}: {_FILE_REPLACED}"
            elif _identity(self._log) != self._log_id:
                self.lost = f"{self._path}: {_LOG_REPLACED}"
            elif folder is not None and time.time_ns() - folder[2] > CTIME_GRANULARITY_NANOSECONDS:
                self._checked_folder = folder
        if self.lost is not None:
            raise StoreUnavailable("sqlite", self.lost)


_open: "set[FileIdentity]" = set()
"""Global like SQLite's own state: all connections of a process to a file share one index of the log."""


def check_open_files(path: Path) -> None:
    """Refuse to open a file that this process has open with a deleted log: its stale index would corrupt the file.

    Raises:
        StoreUnavailable: the process has such connections.
    """
    for identity in _open:
        if identity.is_at(path):
            identity.check()


def _state(folder: str) -> tuple[int, int, int] | None:
    """The folder's device, inode and ctime in nanoseconds, which cannot be set; None if it does not exist."""
    try:
        found = os.stat(folder)  # noqa: PTH116 — for each commit, and a Path doubles the cost
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 — as above
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
