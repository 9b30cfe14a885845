"""The database file and its write-ahead log as they were when they were opened: deleted or replaced ones are detected.

SQLite goes on writing to a file that has no name any more, and everything in it is lost when the process ends. A
``stat`` of the folder, about 1 µs, says whether a name in it has changed; then one of each file says which.
"""

import os
import time
from pathlib import Path

import apsw

from wenmai.errors import StoreUnavailable

_LOG_GONE = (
    "its write-ahead log was deleted or replaced while it was open, so the last commit is lost. The standard sqlite3 "
    "module does this when this process opens and closes the same file with it; use "
    "wenmai.stores.sqlite.query_readonly instead. Restart this process to open the store again"
)
_FILE_GONE = (
    "the file was deleted or replaced while it was open, so the last commit is lost. "
    "Put the right file in its place, then restart this process"
)

SETTLED_NANOSECONDS = 3_000_000_000
"""A change of a folder shows in its time unless another one was so short a time before: the coarsest file system has
steps of two seconds."""


class OpenedFile:
    """The identity, device and inode, of the files behind a connection; the log must have been opened by it.

    Attributes:
        lost: what happened to them, once a check has found that they are not the opened ones; final.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._path = connection.filename
        self._log = connection.filename_wal
        self._folder = os.path.dirname(self._path)  # noqa: PTH120 — as a text, for each commit
        self._file_id, self._log_id = _identity(self._path), _identity(self._log)
        self._checked_folder: tuple[int, int, int] | None = None
        self.lost: str | None = None
        _open.add(self)

    def close(self) -> None:
        """The connections are about to be closed, the last of which removes the log."""
        _open.discard(self)

    def is_at(self, path: Path) -> bool:
        """True if this is the file that has that name now."""
        return _identity(str(path)) == self._file_id

    def check(self) -> None:
        """Compare the files with those that were opened.

        Raises:
            StoreUnavailable: they were deleted or replaced; nothing that is committed from now on would last.
        """
        if self.lost is None:
            folder = _state(self._folder)
            if folder is not None and folder == self._checked_folder:
                return
            if _identity(self._path) != self._file_id:
                self.lost = f"{self._path}: {_FILE_GONE}"
            elif _identity(self._log) != self._log_id:
                self.lost = f"{self._path}: {_LOG_GONE}"
            elif folder is not None and time.time_ns() - folder[2] > SETTLED_NANOSECONDS:
                self._checked_folder = folder
        if self.lost is not None:
            raise StoreUnavailable("sqlite", self.lost)


_open: "set[OpenedFile]" = set()
"""Of this process, like SQLite's own state: its connections to a file share one index of the log."""


def check_open_ones(path: Path) -> None:
    """Refuse to open a file beside connections of this process whose log is gone: their index would damage it.

    Raises:
        StoreUnavailable: there are such connections.
    """
    for each in _open:
        if each.is_at(path):
            each.check()


def _state(folder: str) -> tuple[int, int, int] | None:
    """The folder's identity, and when it was changed last in nanoseconds, which cannot be set; None if it is gone."""
    try:
        found = os.stat(folder)  # noqa: PTH116 — for each commit, and a Path costs as much again
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 — as above
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
