"""The Redis tier as the others use it: it may be gone at any moment, and no request waits for it or fails with it.

While the breaker is not closed, no request reaches the server. The keeper alone tries, one attempt at a time: once it
can listen to the channel again, it first brings what was missed in order.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.breaker import Breaker
from wenmai.stores.degradation import note_degraded
from wenmai.stores.redis.link import Link
from wenmai.stores.tiers.copies import SessionCopy, SessionKey
from wenmai.stores.tiers.failures import CopyFailures
from wenmai.stores.tiers.hot import Seen, SessionCopies
from wenmai.stores.tiers.missed import DOUBT, DROP, Missed, Repair
from wenmai.stores.tiers.trust import Trust

_log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
"""Between two attempts to listen, and to bring in order what was missed."""


class GuardedCopies:
    """:class:`SessionCopies` behind a breaker; no method raises, whatever the server or a copy does."""

    def __init__(self, copies: SessionCopies, breaker: Breaker) -> None:
        self._copies = copies
        self.breaker = breaker
        self._telling: Counter[tuple[Scope, str]] = Counter()
        self._missed = Missed()
        self._missing = asyncio.Event()
        self._failures = CopyFailures()

    async def read(self, scope: Scope, session_id: str, npc_id: str = "") -> Seen | None:
        """What is copied; None if the server cannot say, or has not been told of all changes of this process yet."""
        key = scope, session_id
        if key in self._missed or key in self._telling or not self._closed():
            return None
        try:
            with self.breaker.guard():
                return await self._copies.read(scope, session_id, npc_id)
        except StoreUnavailable as problem:
            self._unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — the copy is dropped, and the failure logged
            self._failures.note("read from Redis", problem)
            self.miss(scope, session_id, DROP)
        return None

    async def fill(self, scope: Scope, session_id: str, revision: str, found: SessionCopy) -> None:
        """See :meth:`SessionCopies.fill`; it may be left undone."""
        if (scope, session_id) in self._missed or not self._closed():
            return
        try:
            with self.breaker.guard():
                await self._copies.fill(scope, session_id, revision, found)
        except StoreUnavailable as problem:
            self._unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — nothing was copied, and the failure is logged
            self._failures.note("written to Redis", problem)

    async def tell(
        self,
        scope: Scope,
        session_id: str,
        change: Callable[[SessionCopies], Awaitable[None]],
        repair: Repair = DOUBT,
    ) -> None:
        """Bring the server's copy in line with a change that the durable store has; later, if it cannot be now."""
        key, done = (scope, session_id), False
        self._telling[key] += 1
        try:
            if self._closed():
                with self.breaker.guard():
                    await change(self._copies)
                done = True
        except StoreUnavailable as problem:
            self._unavailable(problem)
        except Exception as problem:  # noqa: BLE001 — the copy is invalidated, and the failure logged
            self._failures.note("changed on Redis", problem)
        finally:
            # Also if the caller is cancelled half-way.
            if not done:
                self.miss(scope, session_id, repair)
            self._telling[key] -= 1
            if not self._telling[key]:
                del self._telling[key]

    def miss(self, scope: Scope, session_id: str, repair: Repair = DOUBT) -> None:
        """Note that the server's copy of the session may not be so."""
        self._missed.add((scope, session_id), repair)
        self._missing.set()

    async def repair(self) -> None:
        """Tell the server what it has missed, once there is something, while it answers."""
        await self._missing.wait()
        self._missing.clear()
        try:
            while self._missed and self.breaker.status.state == "closed":
                await self._repair_one()
        finally:
            if self._missed:
                self._missing.set()
        if self._missed:
            await asyncio.sleep(PAUSE_SECONDS)

    async def _repair_one(self) -> None:
        # Until it is done it stays noted, so that no reader is answered by the copy.
        key, repair = self._missed.next()
        scope, session_id = key
        try:
            with self.breaker.guard():
                if repair.how == "drop":
                    await self._copies.drop(scope, session_id, repair.npc_ids)
                else:
                    await self._doubt(scope, session_id, own=repair.how == "recheck")
            self._missed.done(key, repair)
        except StoreUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
        finally:
            self._missed.postpone(key)

    async def probe(self) -> None:
        """Try the server again while its breaker is open although the channel stands: it had no memory, or was slow."""
        await asyncio.sleep(PAUSE_SECONDS)
        if self.breaker.status.state != "closed":
            with suppress(StoreUnavailable), self.breaker.guard():
                await self._copies.probe()

    async def _doubt(self, scope: Scope, session_id: str, *, own: bool) -> None:
        try:
            await self._copies.doubt(scope, session_id, own=own)
        except StoreUnavailable:
            # A server without memory refuses every write, but not this.
            await self._copies.drop(scope, session_id)

    def _unavailable(self, problem: StoreUnavailable) -> None:
        note_degraded(self.breaker.name)
        _log.warning("Redis cache unavailable, continuing without it: %s", problem)

    def _closed(self) -> bool:
        if self.breaker.status.state == "closed":
            return True
        note_degraded(self.breaker.name)
        return False


async def listen(
    link: Link,
    channel: str,
    copies: SessionCopies,
    breaker: Breaker,
    trust: Trust,
    on_change: Callable[[SessionKey], None],
) -> None:
    """Hear of other processes' changes until the channel fails; try the server again if its breaker is open."""
    try:
        with breaker.guard():
            subscription = await link.subscribe(channel)
    except StoreUnavailable:
        await asyncio.sleep(PAUSE_SECONDS)
        return
    trust.channel_up()
    try:
        async with aclosing(subscription.messages()) as messages:
            async for told in messages:
                key = copies.changed(told)
                if key is not None:
                    on_change(key)
    except StoreUnavailable as problem:
        _log.warning("other processes' changes are not heard any more: %s", problem)
    finally:
        trust.channel_down()
    await asyncio.sleep(PAUSE_SECONDS)


async def repeat_for_ever(step: Callable[[], Awaitable[None]]) -> None:
    """Repeat a step of the cache's upkeep; an exception is logged, and ends nothing."""
    while True:
        try:
            await step()
        except Exception:  # noqa: BLE001 — logged, and tried again
            _log.exception("a step of the cache's upkeep failed, and is repeated")
            await asyncio.sleep(PAUSE_SECONDS)
