"""Clocks are injected, so that a test can move the time."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

Clock = Callable[[], datetime]
"""Returns the current time as an aware UTC datetime."""


def system_clock() -> datetime:
    """The system time, UTC."""
    return datetime.now(UTC)


class MovableClock:
    """A clock that only moves on request; for tests and the conformance suite."""

    def __init__(self, start: datetime | None = None) -> None:
        self._now = start or datetime(2026, 1, 5, 14, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        """The clock's current time."""
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
    """The exact inverse of :func:`to_micros`."""
    return _EPOCH + timedelta(0, 0, micros)
