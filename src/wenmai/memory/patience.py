"""When a lease that another process holds has expired, whatever that process's clock said."""

import time
from datetime import datetime, timedelta
from typing import Any

from wenmai.clock import Clock
from wenmai.stores.base import Stored


class Patience:
    """Watches one lease while its end is waited for.

    A lease has expired at the end that its holder wrote, or when it has not been renewed for ``longest`` of this
    process's own time: so a holder whose clock was ahead blocks others no longer than one whose clock was right.
    """

    def __init__(self, clock: Clock, longest: timedelta) -> None:
        self._clock = clock
        self._longest = longest.total_seconds()
        self._version = 0
        self._since = 0.0

    def is_held(self, lease: Stored[Any], expires_at: datetime) -> bool:
        """Whether the lease, as it was read just now, binds others still."""
        if expires_at <= self._clock():
            return False
        if lease.version != self._version:
            self._version, self._since = lease.version, time.monotonic()
            return True
        return time.monotonic() - self._since < self._longest
