"""Detects that another process's lease has expired, whatever that process's clock says."""

import time
from datetime import datetime, timedelta
from typing import Any

from wenmai.clock import Clock
from wenmai.stores.structs import Stored


class LeaseWatch:
    """Watches one lease while a caller waits for it.

    A lease has expired at the expiry that its holder wrote, or when it has not been renewed for ``duration`` of this
    process's own time: so a holder whose clock is ahead blocks others no longer than one whose clock is right.
    """

    def __init__(self, clock: Clock, duration: timedelta) -> None:
        self._clock = clock
        self._duration = duration.total_seconds()
        self._version = 0
        self._since = 0.0

    def is_held(self, lease: Stored[Any], expires_at: datetime) -> bool:
        """Whether the lease, as it was read just now, is still valid."""
        if expires_at <= self._clock():
            return False
        if lease.version != self._version:
            self._version, self._since = lease.version, time.monotonic()
            return True
        return time.monotonic() - self._since < self._duration
