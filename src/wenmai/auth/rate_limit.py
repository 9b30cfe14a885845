"""The rate limit of each principal: shared by all processes where there is a Redis server, else per process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib import import_module
from typing import Protocol

from wenmai.auth.principal import Principal
from wenmai.auth.rates import LocalBuckets, Rate, Taken, parse_rate
from wenmai.errors import StoreUnavailable
from wenmai.resilience.breaker import Breaker, BreakerPolicy

_REDIS = "wenmai.stores.redis.counters"
"""Has ``open_buckets``; its driver comes with the extra ``redis``, which the store or its cache needs too."""

SLOW_SECONDS = 0.25
"""A call of Redis that takes so long counts as a failure."""

_NAME_CHARACTERS = 32


class _State(Protocol):
    taken: bool
    full_in: float


class SharedBuckets(Protocol):
    """See :class:`wenmai.stores.redis.counters.RedisBuckets`."""

    async def take(self, name: str, *, interval: float, period: float) -> _State:
        """Take a request from a bucket."""


class RateLimit:
    """Limits the requests of each principal.

    Args:
        rate: of each principal that has none of its own; None for no limit.
        shared: buckets that all processes share; None for those of this process.
        policy: of the breaker in front of the shared ones. While it is open, and after a failure, the buckets of this
            process count.

    Attributes:
        breakers: the one in front of the shared buckets, if there are any.
    """

    def __init__(
        self, rate: Rate | None, shared: SharedBuckets | None = None, policy: BreakerPolicy | None = None
    ) -> None:
        self._rate = rate
        self._shared = shared
        self._breaker = Breaker("rate_limit", policy=policy or BreakerPolicy(slow_seconds=SLOW_SECONDS))
        self.breakers: tuple[Breaker, ...] = () if shared is None else (self._breaker,)
        self._local = LocalBuckets()

    def rate_of(self, principal: Principal) -> Rate | None:
        """The principal's own rate, or that of all; None for no limit."""
        return principal.rate or self._rate

    async def take(self, principal: Principal, rate: Rate) -> Taken:
        """Take a request from the principal's bucket, which has its :meth:`rate_of`, if one is left."""
        # A digest, since the name of a token's principal contains its user.
        owner = f"{principal.tenant_id}/{principal.actor}/{principal.user_id}".encode()
        name = sha256(owner).hexdigest()[:_NAME_CHARACTERS]
        return await self._take_shared(name, rate) or self._local.take(name, rate)

    async def _take_shared(self, name: str, rate: Rate) -> Taken | None:
        if self._shared is None:
            return None
        try:
            with self._breaker.guard():
                state = await self._shared.take(name, interval=rate.interval, period=rate.seconds)
        except StoreUnavailable:
            return None
        return Taken(state.taken, rate.allowance(state.full_in))


@asynccontextmanager
async def open_rate_limit(rate: str, redis_url: str, policy: BreakerPolicy | None = None) -> AsyncIterator[RateLimit]:
    """The limit of this rate, empty for none but those of keys; ``redis_url`` is empty for a limit per process.

    Raises:
        InvalidInput: the rate or the URL has another form.
    """
    parsed = parse_rate(rate) if rate else None
    if not redis_url:
        yield RateLimit(parsed)
        return
    async with import_module(_REDIS).open_buckets(redis_url) as shared:
        yield RateLimit(parsed, shared, policy)
