"""Buckets of requests on a Redis server, shared by all processes; one script and one round trip each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.link import Link, Script

_TAKE = Script(
    """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, period = tonumber(ARGV[1]), tonumber(ARGV[2])
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
if full + interval - period > now + 1 then return {0, full - now} end
full = full + interval
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
return {1, full - now}
"""
)
"""KEYS: the bucket. ARGV: microseconds per request, and in which an empty bucket is refilled.

Returns whether a request was taken, and in how many microseconds the bucket is full. The key holds that time and
expires with it.
"""


class BucketState(NamedTuple):
    """Whether a request was taken, and in how many seconds the bucket is full."""

    taken: bool
    full_in: float


class RedisBuckets:
    """Buckets on one server."""

    def __init__(self, link: Link, prefix: str) -> None:
        self._link = link
        self._prefix = prefix

    async def take(self, name: str, *, interval: float, period: float) -> BucketState:
        """Take a request from a bucket that refills one in ``interval`` seconds and all of them in ``period``.

        Raises:
            StoreUnavailable: the server cannot be reached.
        """
        micros = (round(interval * 1e6), round(period * 1e6))
        taken, full_in = await self._link.run(_TAKE, (f"{self._prefix}:rate:{name}",), micros)
        return BucketState(bool(taken), full_in / 1e6)


@asynccontextmanager
async def open_buckets(url: str) -> AsyncIterator[RedisBuckets]:
    """The buckets on the server at ``url``, which may be down.

    Raises:
        InvalidInput: the URL is not one of a Redis server.
    """
    address = parse_address(url)
    link = Link(address)
    try:
        yield RedisBuckets(link, address.prefix)
    finally:
        await link.close()
