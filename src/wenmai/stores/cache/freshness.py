"""Freshness of cache entries.

An entry is validated at the moment at which it is read from the durable store. From then on other processes publish
their changes on the invalidation channel, which takes milliseconds. A process that is cut off from Redis cannot
publish, so no entry is fresh for longer than ``MAX_AGE``. While this process is not subscribed to the channel, none of
its local entries is fresh.

Age is measured by two clocks, and the greater one counts: the wall clock, which may be set back, and the machine's
monotonic clock, which stands still while the machine sleeps.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from time import monotonic
from typing import NamedTuple

from wenmai.clock import Clock, to_micros

MAX_AGE = timedelta(seconds=30)
"""The longest time until another process's change is visible, whatever has failed."""


class Moment(NamedTuple):
    """A moment by both clocks.

    Attributes:
        wall: UTC.
        monotonic: seconds of a clock that never goes back; comparable within this process only.
    """

    wall: datetime
    monotonic: float


_NO_TIME = timedelta(0)

LONG_AGO = Moment(datetime(1970, 1, 1, tzinfo=UTC), -inf)
"""The validation time of a stale entry."""

MomentClock = Callable[[], Moment]
"""Returns the current moment."""


def moment_clock(clock: Clock, monotonic_clock: Callable[[], float] = monotonic) -> MomentClock:
    """Combine a wall clock and a monotonic clock."""
    return lambda: Moment(clock(), monotonic_clock())


class SteadyWall:
    """Wall time that never goes back: a wall clock that is set back is taken to go on from where it was.

    Entries on Redis carry wall time, and Redis has no other clock to measure their age by.
    """

    def __init__(self) -> None:
        self._offset = -inf

    def micros(self, moment: Moment) -> int:
        """The moment in microseconds since 1970 UTC."""
        offset = moment.wall.timestamp() - moment.monotonic
        self._offset = max(self._offset, offset)
        return to_micros(moment.wall) + round((self._offset - offset) * 1e6)


class Freshness:
    """Decides whether entries are fresh, from their age and the state of the invalidation channel."""

    def __init__(self, now: MomentClock, max_age: timedelta = MAX_AGE) -> None:
        self._now = now
        self._max_age = max_age
        self._max_seconds = max_age.total_seconds()
        self._subscribed_since: Moment | None = None

    @property
    def subscribed(self) -> bool:
        """Whether this process receives the invalidations of other processes."""
        return self._subscribed_since is not None

    def channel_up(self) -> None:
        """Invalidations of other processes arrive from now on."""
        self._subscribed_since = self._now()

    def channel_down(self) -> None:
        """Invalidations of other processes may be lost from now on."""
        self._subscribed_since = None

    def is_fresh_in_redis(self, validated_at: Moment) -> bool:
        """Whether an entry that all processes update is fresh; one from the future (a clock was set back) is not."""
        now = self._now()
        by_wall = now.wall - validated_at.wall
        return _NO_TIME <= by_wall < self._max_age and now.monotonic - validated_at.monotonic < self._max_seconds

    def is_fresh_locally(self, validated_at: Moment) -> bool:
        """Whether a local entry is fresh."""
        since = self._subscribed_since
        return since is not None and validated_at.monotonic >= since.monotonic and self.is_fresh_in_redis(validated_at)
