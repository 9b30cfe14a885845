"""The Redis tier as the others use it: it may be gone at any moment, and nobody waits for it or fails with it.

While the breaker is not closed, no request reaches the server. The keeper alone tries, one attempt at a time: once it
can listen to the channel again, it first brings what was missed in order.
"""

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Literal, NamedTuple

from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.breaker import Breaker
from wenmai.stores.degradation import note_degraded
from wenmai.stores.redis.link import Link
from wenmai.stores.tiers.copies import SessionCopy, SessionKey
from wenmai.stores.tiers.hot import Seen, SessionCopies
from wenmai.stores.tiers.trust import Trust

_log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.2
"""Between two attempts to listen, and to bring in order what was missed."""

MISSED = 50_000
"""Sessions whose changes the server has not been told; past that the oldest is left to the bound of the trust."""


class Repair(NamedTuple):
    """How the server's copy of a session is brought in line.

    Attributes:
        how: whether it is not believed any more, or removed.
        npc_ids: to be removed with the threads of these personas.
    """

    how: Literal["doubt", "drop"]
    npc_ids: frozenset[str] = frozenset()


DOUBT = Repair("doubt")


class GuardedCopies:
    """:class:`SessionCopies` behind a breaker; no method raises because of the server."""

    def __init__(self, copies: SessionCopies, breaker: Breaker) -> None:
        self._copies = copies
        self.breaker = breaker
        self._telling: Counter[tuple[Scope, str]] = Counter()
        self._missed: OrderedDict[tuple[Scope, str], Repair] = OrderedDict()
        self._missing = asyncio.Event()

    async def read(self, scope: Scope, session_id: str, npc_id: str = "") -> Seen | None:
        """What is copied; None if the server cannot say, or has not been told of all changes of this process yet."""
        key = scope, session_id
        if key in self._missed or key in self._telling or not self._closed():
            return None
        try:
            with self.breaker.guard():
                return await self._copies.read(scope, session_id, npc_id)
        except StoreUnavailable as problem:
            self._failed(problem)
            return None

    async def fill(self, scope: Scope, session_id: str, revision: str, found: SessionCopy) -> None:
        """See :meth:`SessionCopies.fill`; it may be left undone."""
        if (scope, session_id) in self._missed or not self._closed():
            return
        try:
            with self.breaker.guard():
                await self._copies.fill(scope, session_id, revision, found)
        except StoreUnavailable as problem:
            self._failed(problem)

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
            self._failed(problem)
        finally:
            # Also if the caller is cancelled half-way.
            if not done:
                self.miss(scope, session_id, repair)
            self._telling[key] -= 1
            if not self._telling[key]:
                del self._telling[key]

    def miss(self, scope: Scope, session_id: str, repair: Repair = DOUBT) -> None:
        """Note that the server's copy of the session may not be so."""
        key = scope, session_id
        noted = self._missed.get(key, DOUBT)
        how = repair.how if noted.how == "doubt" else "drop"
        # A new object, also where nothing is new: by that a repair under way knows that it is not the last.
        self._missed[key] = Repair(how, noted.npc_ids | repair.npc_ids)
        if len(self._missed) > MISSED:
            self._missed.popitem(last=False)
        self._missing.set()

    async def repair_for_ever(self) -> None:
        """Tell the server what it has missed, whenever there is something and it answers."""
        while True:
            await self._missing.wait()
            self._missing.clear()
            while self._missed and self.breaker.status.state == "closed":
                await self._repair_one()
            if self._missed:
                self._missing.set()
                await asyncio.sleep(PAUSE_SECONDS)

    async def _repair_one(self) -> None:
        # Until it is done it stays noted, so that nobody is answered by the copy.
        key, repair = next(iter(self._missed.items()))
        scope, session_id = key
        try:
            with self.breaker.guard():
                if repair.how == "drop":
                    await self._copies.drop(scope, session_id, repair.npc_ids)
                else:
                    await self._doubt(scope, session_id)
        except StoreUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            if self._missed.get(key) is repair:
                del self._missed[key]
        if key in self._missed:
            self._missed.move_to_end(key)

    async def probe_for_ever(self) -> None:
        """Try the server again while its breaker is open although the channel stands: it had no memory, or was slow."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            if self.breaker.status.state != "closed":
                with suppress(StoreUnavailable), self.breaker.guard():
                    await self._copies.probe()

    async def _doubt(self, scope: Scope, session_id: str) -> None:
        try:
            await self._copies.doubt(scope, session_id)
        except StoreUnavailable:
            # A server without memory refuses every write, but not this.
            await self._copies.drop(scope, session_id)

    def _failed(self, problem: StoreUnavailable) -> None:
        note_degraded(self.breaker.name)
        _log.warning("the hot tier failed, which nobody but its breaker minds: %s", problem)

    def _closed(self) -> bool:
        if self.breaker.status.state == "closed":
            return True
        note_degraded(self.breaker.name)
        return False


async def listen_for_ever(
    link: Link,
    channel: str,
    copies: SessionCopies,
    breaker: Breaker,
    trust: Trust,
    on_change: Callable[[SessionKey], None],
) -> None:
    """Hear of other processes' changes, and try the server again while its breaker is open."""
    while True:
        try:
            with breaker.guard():
                subscription = await link.subscribe(channel)
        except StoreUnavailable:
            await asyncio.sleep(PAUSE_SECONDS)
            continue
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
