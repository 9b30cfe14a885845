"""How a read goes down the tiers: the process, Redis, the durable store; and up again, where the copies are kept."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeGuard, TypeVar

from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.degradation import note_degraded
from wenmai.stores.tiers.copies import SessionCopy, SessionKey
from wenmai.stores.tiers.failures import CopyFailures
from wenmai.stores.tiers.guarded import GuardedCopies
from wenmai.stores.tiers.lru import Lru
from wenmai.stores.tiers.missed import DROP
from wenmai.stores.tiers.trust import Moment, Trust

T = TypeVar("T")
Believed = Callable[[Moment], bool]
"""Whether a copy that was checked then is trusted."""

Answer = Callable[[SessionCopy, Believed], tuple[T] | None]
"""What a copy says, in a tuple, or None if it does not say it or is not trusted."""


def however_old(_: Moment) -> bool:
    """Trust every copy: the durable store does not answer."""
    return True


RESPITE_SECONDS = 1.0
"""How long a durable store that failed is not asked again for what a copy can say; then by one reader at a time."""


class Reading:
    """Reads of one session's parts over all tiers.

    Args:
        durable: the name of the durable store.

    Attributes:
        failures: of copies that could not be made or read.
    """

    def __init__(self, lru: Lru, hot: GuardedCopies, trust: Trust, durable: str) -> None:
        self._lru = lru
        self._hot = hot
        self._trust = trust
        self._durable = durable
        self.failures = CopyFailures()
        self._failed_at: float | None = None
        self._asking = 0

    async def read(
        self,
        scope: Scope,
        thread: ThreadKey,
        answer: Answer[T],
        ask: Callable[[SessionCopy], Awaitable[T]],
        *,
        at_once: bool = False,
    ) -> T:
        """What the first tier that knows it says.

        Args:
            scope: who asks; a copy of another's session says nothing.
            thread: session, and persona or ""; a copy of another incarnation than it names says nothing.
            answer: reads a copy.
            ask: asks the durable store, and notes in the copy that it is given what is worth keeping; nothing of it is
                kept for an owner who is not certain.
            at_once: another process's change, once acknowledged, must show; the process's own copy, which hears of it a
                moment later, answers only if nothing else does.

        Raises:
            StoreUnavailable: the durable store does not answer, and no copy can either.
        """
        mine = self._lru.find(SessionKey.of(scope, thread.session_id), scope.user_id)
        if not at_once and _is_of(mine, thread.incarnation):
            found = self._say(scope, thread.session_id, mine, answer, self._trust.own)
            if found is not None:
                return found[0]
        return await self._read_below(scope, thread, mine, answer, ask)

    async def _read_below(
        self,
        scope: Scope,
        thread: ThreadKey,
        mine: SessionCopy | None,
        answer: Answer[T],
        ask: Callable[[SessionCopy], Awaitable[T]],
    ) -> T:
        """What Redis or else the durable store says; then what the process's own copy says, however old."""
        session_id, npc_id, incarnation = thread
        key = SessionKey.of(scope, session_id)

        def say(copy: SessionCopy | None, believed: Believed) -> tuple[T] | None:
            return self._say(scope, session_id, copy, answer, believed) if _is_of(copy, incarnation) else None

        def stale() -> tuple[T] | None:
            return say(mine, however_old) or say(shared, however_old)

        with self._lru.loading(key) as load:
            seen = await self._hot.read(scope, session_id, npc_id)
            shared = None if seen is None else seen.copy
            if shared is not None and (found := say(shared, self._trust.shared)) is not None:
                self._lru.fill(key, load, shared)
                return found[0]
            if self._resting() and (found := stale()) is not None:
                note_degraded(self._durable)
                return found[0]
            fresh = SessionCopy(scope.user_id)
            fresh.incarnation = incarnation
            try:
                value = await self._noting_failure(ask(fresh))
            except StoreUnavailable:
                if (found := stale()) is None:
                    raise
                note_degraded(self._durable)
                return found[0]
            certain = mine is not None or shared is not None or fresh.owned
            if certain and fresh.may_be_kept and not load.spoiled:
                self._lru.fill(key, load, fresh)
                if seen is not None:
                    await self._hot.fill(scope, session_id, seen.revision, fresh)
            return value

    def _say(
        self, scope: Scope, session_id: str, copy: SessionCopy, answer: Answer[T], believed: Believed
    ) -> tuple[T] | None:
        """What the copy says; one that cannot be read says nothing, and is dropped."""
        try:
            return answer(copy, believed)
        except Exception as problem:  # noqa: BLE001 — the copy is dropped, and the failure logged
            self.failures.note("read", problem)
            self._lru.forget(SessionKey.of(scope, session_id), scope.user_id)
            self._hot.miss(scope, session_id, DROP)
            return None

    def _resting(self) -> bool:
        """Whether the durable store has failed and somebody tries it just now, or did a moment ago."""
        return self._failed_at is not None and (self._asking > 0 or monotonic() - self._failed_at < RESPITE_SECONDS)

    async def _noting_failure(self, asking: Awaitable[T]) -> T:
        self._asking += 1
        try:
            value = await asking
        except StoreUnavailable:
            self._failed_at = monotonic()
            raise
        else:
            self._failed_at = None
            return value
        finally:
            self._asking -= 1


def _is_of(copy: SessionCopy | None, incarnation: str | None) -> TypeGuard[SessionCopy]:
    """Whether there is a copy, and it is of the incarnation that is asked for, if one is."""
    return copy is not None and incarnation in (None, copy.incarnation)
