"""How long a copy is trusted.

The durable store vouches for a copy at the moment of its reading. From then on other processes announce their changes
on the channel, which takes milliseconds; one that is cut off from it cannot, and for its sake no copy is trusted for
longer than ``TRUST``. While our own end of the channel is down, copies in the process are not trusted at all.

Age is measured by two clocks, and the greater one counts: the wall clock, and the machine's monotonic clock, which
stands still while the machine sleeps. A wall clock that is set back is taken to go on from where it was for as long as
the process lives: the copies on Redis carry its time, and Redis has no other clock to measure them by.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import NamedTuple

from wenmai.clock import Clock

TRUST = timedelta(seconds=30)
"""The bound on how late another process's change shows, whatever has failed."""


class Moment(NamedTuple):
    """A moment by both clocks.

    Attributes:
        wall: UTC.
        running: seconds of a clock that never goes back; of this process alone.
    """

    wall: datetime
    running: float


_NO_TIME = timedelta(0)

LONG_AGO = Moment(datetime(1970, 1, 1, tzinfo=UTC), -inf)
"""When a copy that is in doubt was checked."""

Moments = Callable[[], Moment]
"""Gives the present moment."""


def moments(clock: Clock, running: Callable[[], float] = monotonic) -> Moments:
    """Present moments by these two clocks; neither goes back."""
    ahead = -inf

    def now() -> Moment:
        nonlocal ahead
        wall, seconds = clock(), running()
        difference = wall.timestamp() - seconds
        if difference < ahead:
            return Moment(wall + timedelta(seconds=ahead - difference), seconds)
        ahead = difference
        return Moment(wall, seconds)

    return now


class Trust:
    """Judges copies by their age and by whether the channel stands."""

    def __init__(self, now: Moments, bound: timedelta = TRUST) -> None:
        self._now = now
        self._bound = bound
        self._seconds = bound.total_seconds()
        self._heard_since: Moment | None = None

    @property
    def heard(self) -> bool:
        """Whether other processes' changes reach us."""
        return self._heard_since is not None

    def channel_up(self) -> None:
        """Others' changes reach us from now on."""
        self._heard_since = self._now()

    def channel_down(self) -> None:
        """Others' changes may be missed from now on."""
        self._heard_since = None

    def shared(self, checked_at: Moment) -> bool:
        """Whether a copy that all processes write to is trusted; none that is from the future, by a clock set back."""
        now = self._now()
        by_wall = now.wall - checked_at.wall
        return _NO_TIME <= by_wall < self._bound and now.running - checked_at.running < self._seconds

    def own(self, checked_at: Moment) -> bool:
        """Whether a copy of this process is trusted."""
        heard_since = self._heard_since
        return heard_since is not None and checked_at.running >= heard_since.running and self.shared(checked_at)
