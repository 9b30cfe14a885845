"""A cache in front of a durable store, with two levels: local (an LRU in the process) and Redis.

::

    read    local ──miss──► Redis ──miss──► durable store ──► fills Redis and the local cache
    write   durable store ──acknowledged──► local, Redis, and the invalidation channel to the other processes

The durable store alone acknowledges, numbers and refuses; the cache may vanish at any moment. An entry answers only the
session's owner, and only while it is fresh (:mod:`.freshness`). Without Redis every read goes to the durable store;
without the durable store a read is answered by an entry, if there is one, and writes fail.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import monotonic

from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeout

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.resilience.background import repeat_forever
from wenmai.resilience.breaker import Breaker, BreakerPolicy
from wenmai.scope import Scope
from wenmai.stores.cache.documents import CachedDocuments
from wenmai.stores.cache.freshness import MAX_AGE, Freshness, moment_clock
from wenmai.stores.cache.logs import CachedLogs
from wenmai.stores.cache.lru import Lru
from wenmai.stores.cache.read_through import ReadThrough
from wenmai.stores.cache.redis_cache import RedisSessionCache
from wenmai.stores.cache.resilient import RETRY_SECONDS, ResilientCache, listen
from wenmai.stores.cache.write_through import WriteThrough
from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.records import Marker
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.structs import Stored
from wenmai.stores.update import update

__all__ = ["CachedStore", "open_cache"]

_log = logging.getLogger(__name__)

_STORE_SCOPE = Scope("*", "*", "")
"""Of no tenant: callers cannot be named ``*``."""

_IDENTITY = "store"


class CachedStore:
    """A durable store with a cache in front. See :class:`wenmai.stores.contracts.Store`.

    Attributes:
        name: of the durable store.
        breaker: in front of Redis.
        local: the entries of this process.
    """

    def __init__(self, durable: Store, documents: Documents, logs: Logs, breaker: Breaker, local: Lru) -> None:
        self._durable = durable
        self.name: str = durable.name
        self.documents = documents
        self.logs = logs
        self.search: Search | None = durable.search
        self.breaker = breaker
        self.local = local

    async def ping(self) -> None:
        """Return if the durable store answers."""
        await self._durable.ping()


@asynccontextmanager
async def open_cache(
    durable: Store,
    redis_url: str,
    *,
    clock: Clock,
    breaker_policy: BreakerPolicy | None = None,
    max_age: timedelta = MAX_AGE,
    local: Lru | None = None,
    monotonic_clock: Callable[[], float] = monotonic,
) -> AsyncIterator[CachedStore]:
    """Put the cache in front of an open store, for as long as the context lasts; Redis may be down.

    Args:
        durable: keeps documents and logs; not Redis.
        redis_url: of the server; see ``docs/how-to/run-on-redis.md``.
        clock: the durable store's.
        breaker_policy: when Redis's breaker opens; by default also if calls take half of the command timeout.
        max_age: how long an entry is fresh.
        local: the local cache; by default with the bounds of :mod:`.lru`.
        monotonic_clock: seconds that never go back, by which entries age beside ``clock``.

    Raises:
        InvalidInput: the URL is not that of a Redis server, or the store cannot have Redis in front of it.
        StoreUnavailable: the durable store is unavailable, or the Redis server cannot be used as it is set up.
    """
    if durable.documents is None or durable.logs is None or durable.name == "redis":
        raise InvalidInput("hot", redis_url.partition("?")[0], "needed in front of a Redis store; leave it out")
    address = parse_address(redis_url, setting="hot")
    link, keys = Link(address), Keys(address.prefix)
    breaker = Breaker("redis", policy=breaker_policy or BreakerPolicy(slow_seconds=address.command_timeout / 2))
    identity = await _store_identity(durable.documents)
    now = moment_clock(clock, monotonic_clock)
    redis = RedisSessionCache(link, keys, now, origin=secrets.token_hex(8), store=identity)
    freshness, lru = Freshness(now, max_age), Lru() if local is None else local
    resilient = ResilientCache(redis, breaker)
    read_through = ReadThrough(lru, resilient, freshness, durable.name)
    write_through = WriteThrough(lru, resilient, now)
    await _check(link)
    listening = partial(listen, link, keys.changes, redis, breaker, freshness, lru.drop)
    tasks = _start(
        {
            "listening to cache invalidations": listening,
            "sending cache invalidations": resilient.send_pending,
            "probe of Redis": resilient.probe,
        }
    )
    try:
        yield CachedStore(
            durable,
            CachedDocuments(durable.documents, durable.logs, read_through, write_through, now),
            CachedLogs(durable.logs, read_through, write_through, now),
            breaker,
            lru,
        )
    finally:
        await write_through.drain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await link.close()


def _start(steps: Mapping[str, Callable[[], Awaitable[object]]]) -> list[asyncio.Task[None]]:
    """Tasks that repeat the steps, each under its name."""
    return [
        asyncio.create_task(repeat_forever(what, step, seconds=0.0, retry_after=RETRY_SECONDS))
        for what, step in steps.items()
    ]


async def _store_identity(documents: Documents) -> str:
    """The identity of the durable store, kept in it; created when a cache is first put in front.

    Raises:
        StoreUnavailable: the store is unavailable.
    """

    def created(stored: Stored[Marker] | None) -> Marker:
        return stored.record if stored else Marker(name=_IDENTITY, value=secrets.token_hex(8))

    return (await update(documents, _STORE_SCOPE, Marker, _IDENTITY, created)).record.value


async def _check(link: Link) -> None:
    """Fail early for a server that cannot be used; one that is merely down may come up later.

    Raises:
        StoreUnavailable: it refuses the password, is too old, or is a cluster and the prefix has no hash tag.
    """
    try:
        await link.check()
    except StoreUnavailable as problem:
        reason = problem.__cause__
        absent = isinstance(reason, (TimeoutError, RedisTimeout, OSError, RedisConnectionError))
        if not absent or isinstance(reason, AuthenticationError):
            problem.name_setting("hot")
            raise
        _log.warning("Redis cache unavailable at startup, continuing without it: %s", problem)
