"""Translation of SQLite errors into ours, with advice."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw

from wenmai.errors import StoreUnavailable

_ADVICE: tuple[tuple[type[apsw.Error], str], ...] = (
    (apsw.CantOpenError, "does its folder exist, and may this process write there?"),
    (apsw.ReadOnlyError, "may this process write the file and in its folder?"),
    (apsw.FullError, "make room on the disk"),
    (apsw.IOError, "is the disk full or failing?"),
    (apsw.BusyError, "another process holds its lock for too long"),
)
"""Advice by SQLite error."""


@contextmanager
def translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise SQLite errors (busy, full, read-only, corrupt) as :class:`StoreUnavailable`, naming the file if given."""
    try:
        yield
    except apsw.Error as problem:
        raise unavailable(problem, path) from problem


def unavailable(problem: apsw.Error, path: Path | None = None) -> StoreUnavailable:
    """The SQLite error as StoreUnavailable, with advice; it names the file if given."""
    message = str(problem) or type(problem).__name__
    advice = "".join(f"; {advice}" for kind, advice in _ADVICE if isinstance(problem, kind))
    return StoreUnavailable("sqlite", f"{path}: {message}{advice}" if path else f"{message}{advice}")
