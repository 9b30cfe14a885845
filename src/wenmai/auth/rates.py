"""Request rates as token buckets: one per principal, refilled steadily, in this process."""

import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from wenmai.errors import InvalidInput

MAX_BUCKETS = 10_000
_SECONDS = {"second": 1.0, "minute": 60.0, "hour": 3600.0}
_RATE = re.compile(r"([1-9][0-9]{0,5})/(second|minute|hour)")


class Rate(NamedTuple):
    """So many requests in so many seconds; a bucket holds all of them."""

    requests: int
    seconds: float

    @property
    def interval(self) -> float:
        """Seconds in which one request is refilled."""
        return self.seconds / self.requests

    def allowance(self, full_in: float) -> "Allowance":
        """What a bucket allows that is full again in so many seconds."""
        left = math.floor((self.seconds - full_in) / self.interval + _ROUNDING)
        wait = 0.0 if left >= 1 else full_in + self.interval - self.seconds
        return Allowance(max(left, 0), wait)


_ROUNDING = 1e-6
"""Of a request, so that sums of intervals that are no binary fractions give whole requests."""


class Allowance(NamedTuple):
    """What is left in a bucket: whole requests, and seconds until the next one if there is none."""

    left: int
    wait_seconds: float


class Taken(NamedTuple):
    """Whether a request was taken from a bucket, and what is left."""

    allowed: bool
    allowance: Allowance


def parse_rate(text: str) -> Rate:
    """The rate of a text such as ``600/minute``.

    Raises:
        InvalidInput: it has another form.
    """
    match = _RATE.fullmatch(text)
    if match is None:
        raise InvalidInput("rate_limit", text, "a number of requests per second, minute or hour, such as 600/minute")
    return Rate(int(match[1]), _SECONDS[match[2]])


class LocalBuckets:
    """The buckets of this process, the 10 000 used last.

    Args:
        now: seconds of a monotonic clock.
    """

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._full_at: OrderedDict[str, float] = OrderedDict()

    def take(self, name: str, rate: Rate) -> Taken:
        """Take a request from the bucket with this name, which always has this rate."""
        now = self._now()
        full_at = max(self._full_at.get(name, now), now)
        before = rate.allowance(full_at - now)
        if before.left < 1:
            return Taken(False, before)
        full_at += rate.interval
        self._full_at[name] = full_at
        self._full_at.move_to_end(name)
        if len(self._full_at) > MAX_BUCKETS:
            self._full_at.popitem(last=False)
        return Taken(True, rate.allowance(full_at - now))
