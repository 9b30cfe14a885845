"""How long a copy is believed.

The durable store vouches for a copy at the moment of its reading. From then on other processes tell of their changes
over the channel, which takes milliseconds; one that is cut off from it cannot, and for its sake no copy is believed
for longer than ``TRUST``. While our own end of the channel is down, copies in the process are not believed at all.
"""

from datetime import datetime, timedelta

from wenmai.clock import Clock

TRUST = timedelta(seconds=30)
"""The bound on how late another process's change shows, whatever has failed."""


class Trust:
    """Judges copies; told by the channel whether it stands."""

    def __init__(self, clock: Clock, bound: timedelta = TRUST) -> None:
        self._clock = clock
        self._bound = bound
        self._heard_since: datetime | None = None

    @property
    def heard(self) -> bool:
        """Whether other processes' changes reach us."""
        return self._heard_since is not None

    def channel_up(self) -> None:
        """Others' changes reach us from now on."""
        self._heard_since = self._clock()

    def channel_down(self) -> None:
        """Others' changes may be missed from now on."""
        self._heard_since = None

    def shared(self, checked_at: datetime) -> bool:
        """Whether a copy that all processes write to is believed."""
        age = self._clock() - checked_at
        return timedelta(0) <= age < self._bound

    def own(self, checked_at: datetime) -> bool:
        """Whether a copy of this process is believed."""
        return self._heard_since is not None and checked_at >= self._heard_since and self.shared(checked_at)
