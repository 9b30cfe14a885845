"""Tiers in front of a durable store: the process's memory, then Redis.

::

    read    process ──miss──► Redis ──miss──► durable store ──► kept in Redis and in the process
    write   durable store ──acknowledged──► process, Redis, and the channel that tells the other processes

The durable store alone acknowledges, numbers and refuses; what is above may vanish at any moment. A copy answers only
the session's owner, and only while it is believed (:mod:`.trust`). Without Redis every read goes to the durable store;
without the durable store a read is answered by a copy, if there is one, and writes fail.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from time import monotonic

from redis.exceptions import AuthenticationError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeout

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, StoreUnavailable, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Documents, Logs, Search, Store
from wenmai.stores.breaker import Breaker, BreakerPolicy
from wenmai.stores.records import ActiveVersion
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.tiers.documents import TieredDocuments
from wenmai.stores.tiers.guarded import GuardedCopies, listen, repeat_for_ever
from wenmai.stores.tiers.hot import SessionCopies
from wenmai.stores.tiers.logs import TieredLogs
from wenmai.stores.tiers.lru import Lru
from wenmai.stores.tiers.reading import Reading
from wenmai.stores.tiers.trust import TRUST, Trust, moments
from wenmai.stores.tiers.writing import Writing

__all__ = ["TieredStore", "open_tiers"]

_log = logging.getLogger(__name__)

_OF_THE_STORE = Scope("*", "*", "")
"""No tenant's: ``*`` is no name that a caller may have."""

_IDENTITY = "identity"


class TieredStore:
    """A durable store with tiers in front. See :class:`wenmai.stores.base.Store`.

    Attributes:
        name: the durable store's.
        breaker: in front of Redis.
        copies: those of this process.
    """

    def __init__(self, durable: Store, documents: Documents, logs: Logs, breaker: Breaker, copies: Lru) -> None:
        self._durable = durable
        self.name = durable.name
        self.documents = documents
        self.logs = logs
        self.search: Search | None = durable.search
        self.breaker = breaker
        self.copies = copies

    async def ping(self) -> None:
        """Return if the durable store answers."""
        await self._durable.ping()


@asynccontextmanager
async def open_tiers(
    durable: Store,
    hot: str,
    *,
    clock: Clock,
    breaking: BreakerPolicy | None = None,
    trust_bound: timedelta = TRUST,
    copies: Lru | None = None,
    running: Callable[[], float] = monotonic,
) -> AsyncIterator[TieredStore]:
    """Put the tiers in front of an open store, for as long as the context lasts; Redis may be absent.

    Args:
        durable: keeps documents and logs, and outlives Redis.
        hot: URL of the Redis server; see ``docs/how-to/run-on-redis.md``.
        clock: the durable store's.
        breaking: when Redis is left alone; by default also when it takes half of what a command may.
        trust_bound: how long a copy is trusted at most.
        copies: where this process keeps its copies; by default as many and as large as :mod:`.lru` says.
        running: seconds that never go back, by which copies age beside the clock.

    Raises:
        InvalidInput: the URL is not one of a Redis server, or the store is not one to put Redis in front of.
    """
    if durable.documents is None or durable.logs is None or durable.name == "redis":
        raise InvalidInput(
            "hot", hot.partition("?")[0], "needed in front of a store that is Redis itself; leave it out"
        )
    address = parse_address(hot, setting="hot")
    link, keys = Link(address), Keys(address.prefix)
    breaker = Breaker("redis", policy=breaking or BreakerPolicy(slow_seconds=address.command_timeout / 2))
    identity = await _identity(durable.documents)
    now = moments(clock, running)
    shared = SessionCopies(link, keys, now, origin=secrets.token_hex(8), store=identity)
    trust, lru = Trust(now, trust_bound), Lru() if copies is None else copies
    guarded = GuardedCopies(shared, breaker)
    reading = Reading(lru, guarded, trust, durable.name)
    writing = Writing(lru, guarded, now)
    await _check(link)
    upkeep = (
        lambda: listen(link, keys.changes, shared, breaker, trust, lru.forget),
        guarded.repair,
        guarded.probe,
    )
    tasks = [asyncio.create_task(repeat_for_ever(step)) for step in upkeep]
    try:
        yield TieredStore(
            durable,
            TieredDocuments(durable.documents, durable.logs, reading, writing, now),
            TieredLogs(durable.logs, reading, writing, now),
            breaker,
            lru,
        )
    finally:
        await writing.drain()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await link.close()


async def _identity(documents: Documents) -> str:
    """What tells the durable store from every other, kept in it; made when a hot tier is first put in front.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    while True:
        known = await documents.get(_OF_THE_STORE, ActiveVersion, _IDENTITY)
        if known is not None:
            return f"{known.record.number:x}"
        made = ActiveVersion(ref=_IDENTITY, number=secrets.randbits(53), latest=0)
        # Another process may be faster; then its number counts.
        with suppress(VersionConflict):
            await documents.put(_OF_THE_STORE, made, expected=0)


async def _check(link: Link) -> None:
    """Tell at the start of a server that will not do; one that is merely not there may come later.

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
        _log.warning("the hot tier is not there yet: %s", problem)
