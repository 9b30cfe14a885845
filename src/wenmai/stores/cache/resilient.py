"""The Redis cache behind a circuit breaker: Redis may fail at any moment, and no request waits for it or fails with it.

While the breaker is not closed, no request reaches the server. Background tasks alone probe it, one attempt at a time;
once Redis is available again, pending invalidations are sent before any session they concern is read from it.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from wenmai.errors import StoreUnavailable
from wenmai.resilience.breaker import Breaker
from wenmai.resilience.degradation import note_degraded
from wenmai.scope import Scope
from wenmai.stores.cache.entries import CachedSession, SessionKey
from wenmai.stores.cache.failures import EntryFailures
from wenmai.stores.cache.freshness import Freshness
from wenmai.stores.cache.pending import DROP, MARK_STALE, PendingInvalidation, PendingInvalidations
from wenmai.stores.cache.redis_cache import Lookup, RedisSessionCache
from wenmai.stores.redis.link import Link

_log = logging.getLogger(__name__)

RETRY_SECONDS = 0.2
"""Between two attempts to subscribe, and to send pending invalidations."""


class ResilientCache:
    """:class:`RedisSessionCache` behind a breaker; no method raises, whatever the server or an entry does."""

    def __init__(self, cache: RedisSessionCache, breaker: Breaker) -> None:
        self._cache = cache
        self.breaker = breaker
        self._propagating: Counter[tuple[Scope, str]] = Counter()
        self._pending = PendingInvalidations()
        self._has_pending = asyncio.Event()
        self._failures = EntryFailures()

    async def read(self, scope: Scope, session_id: str, persona_id: str = "") -> Lookup | None:
        """The entry of a session; None if Redis is unavailable or lacks a change of this process."""
        key = scope, session_id
        if key in self._pending or key in self._propagating or not self._available():
            return None
        try:
            with self.breaker.guard():
                return await self._cache.read(scope, session_id, persona_id)
        except StoreUnavailable as problem:
            self._note_unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — the entry is dropped, and the failure logged
            self._failures.note("read from Redis", problem)
            self.invalidate_later(scope, session_id, DROP)
        return None

    async def fill(self, scope: Scope, session_id: str, revision: str, read: CachedSession) -> None:
        """See :meth:`RedisSessionCache.fill`; best effort."""
        if (scope, session_id) in self._pending or not self._available():
            return
        try:
            with self.breaker.guard():
                await self._cache.fill(scope, session_id, revision, read)
        except StoreUnavailable as problem:
            self._note_unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — nothing was cached, and the failure is logged
            self._failures.note("written to Redis", problem)

    async def propagate(
        self,
        scope: Scope,
        session_id: str,
        change: Callable[[RedisSessionCache], Awaitable[None]],
        on_failure: PendingInvalidation = MARK_STALE,
    ) -> None:
        """Apply a change that the durable store has acknowledged to the entry; if that fails, invalidate it later."""
        key, done = (scope, session_id), False
        self._propagating[key] += 1
        try:
            if self._available():
                with self.breaker.guard():
                    await change(self._cache)
                done = True
        except StoreUnavailable as problem:
            self._note_unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — the entry is invalidated, and the failure logged
            self._failures.note("changed on Redis", problem)
        finally:
            # Also if the caller is cancelled half-way.
            if not done:
                self.invalidate_later(scope, session_id, on_failure)
            self._propagating[key] -= 1
            if not self._propagating[key]:
                del self._propagating[key]

    def invalidate_later(self, scope: Scope, session_id: str, invalidation: PendingInvalidation = MARK_STALE) -> None:
        """Queue an invalidation of the session's entry on Redis."""
        self._pending.add((scope, session_id), invalidation)
        self._has_pending.set()

    async def send_pending(self) -> None:
        """Wait for pending invalidations, and send them while the server answers."""
        await self._has_pending.wait()
        self._has_pending.clear()
        try:
            while self._pending and self.breaker.status.state == "closed":
                await self._send_one()
        finally:
            if self._pending:
                self._has_pending.set()
        if self._pending:
            await asyncio.sleep(RETRY_SECONDS)

    async def _send_one(self) -> None:
        # It stays pending until it is done, so that no read is answered by the entry.
        key, invalidation = self._pending.next()
        scope, session_id = key
        try:
            with self.breaker.guard():
                if invalidation.action == "drop":
                    await self._cache.drop(scope, session_id, invalidation.persona_ids)
                else:
                    await self._mark_stale(scope, session_id, own_only=invalidation.action == "mark_own_stale")
            self._pending.done(key, invalidation)
        except StoreUnavailable:
            await asyncio.sleep(RETRY_SECONDS)
        finally:
            self._pending.postpone(key)

    async def probe(self) -> None:
        """Probe the server while the breaker is open although the channel works: it was out of memory, or slow."""
        await asyncio.sleep(RETRY_SECONDS)
        if self.breaker.status.state != "closed":
            with suppress(StoreUnavailable), self.breaker.guard():
                await self._cache.probe()

    async def _mark_stale(self, scope: Scope, session_id: str, *, own_only: bool) -> None:
        try:
            await self._cache.mark_stale(scope, session_id, own_only=own_only)
        except StoreUnavailable:
            # A server that is out of memory refuses every write except a drop.
            await self._cache.drop(scope, session_id)

    def _note_unavailable(self, problem: StoreUnavailable) -> None:
        note_degraded(self.breaker.name)
        _log.warning("Redis cache unavailable, continuing without it: %s", problem)

    def _available(self) -> bool:
        if self.breaker.status.state == "closed":
            return True
        note_degraded(self.breaker.name)
        return False


async def listen(
    link: Link,
    channel: str,
    cache: RedisSessionCache,
    breaker: Breaker,
    freshness: Freshness,
    on_change: Callable[[SessionKey], None],
) -> None:
    """Receive other processes' changes until the channel fails; subscribing is also the probe of an open breaker."""
    try:
        with breaker.guard():
            subscription = await link.subscribe(channel)
    except StoreUnavailable:
        await asyncio.sleep(RETRY_SECONDS)
        return
    freshness.channel_up()
    try:
        async with aclosing(subscription.messages()) as messages:
            async for payload in messages:
                key = cache.parse_change(payload)
                if key is not None:
                    on_change(key)
    except StoreUnavailable as problem:
        _log.warning("invalidation channel lost, local cache entries are stale until it is back: %s", problem)
    finally:
        freshness.channel_down()
    await asyncio.sleep(RETRY_SECONDS)
