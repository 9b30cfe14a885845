"""What SQLite reports, as errors of ours that say what to look at."""

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
    (apsw.BusyError, "another process holds it for too long"),
)
"""What to look at, by what SQLite reports."""


@contextmanager
def translated_errors(path: Path | None = None) -> Iterator[None]:
    """Raise what SQLite reports (busy, full, read-only, damaged) as :class:`StoreUnavailable`, naming a given file."""
    try:
        yield
    except apsw.Error as problem:
        raise unavailable(problem, path) from problem


def unavailable(problem: apsw.Error, path: Path | None = None) -> StoreUnavailable:
    """What SQLite reports as our error, with advice; it names the file if one is given."""
    said = str(problem) or type(problem).__name__
    advice = "".join(f"; {advice}" for kind, advice in _ADVICE if isinstance(problem, kind))
    return StoreUnavailable("sqlite", f"{path}: {said}{advice}" if path else f"{said}{advice}")
