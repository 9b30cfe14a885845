"""Time is handed in, so that a test can move it."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Gives the present moment as an aware UTC datetime."""


def system_clock() -> datetime:
    """The machine's time, UTC."""
    return datetime.now(UTC)


class MovableClock:
    """A clock that stands still until it is moved; for tests and for the conformance suite."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 5, 14, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The moment at which the clock stands."""
        return self._now

    def advance(self, by: timedelta) -> None:
        """Move the clock forward by ``by``."""
        self._now += by


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def to_micros(moment: datetime) -> int:
    """Microseconds since 1970 UTC; exact, where ``timestamp()`` rounds."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The inverse of :func:`to_micros`, as exact."""
    return _EPOCH + timedelta(0, 0, micros)
