"""Reads through the cache: local, then Redis, then the durable store, whose result fills both."""

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import TypeGuard, TypeVar

from wenmai.errors import StoreUnavailable
from wenmai.resilience.degradation import note_degraded
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import CachedSession, SessionKey
from wenmai.stores.cache.failures import EntryFailures
from wenmai.stores.cache.freshness import Freshness, Moment
from wenmai.stores.cache.lru import Lru
from wenmai.stores.cache.pending import DROP
from wenmai.stores.cache.resilient import ResilientCache

T = TypeVar("T")
IsFresh = Callable[[Moment], bool]
"""Whether a part validated at that moment is fresh."""

Answer = Callable[[CachedSession, IsFresh], tuple[T] | None]
"""The answer of an entry, in a tuple; None if the part is missing or stale."""


def any_age(_: Moment) -> bool:
    """Accept stale entries too: the durable store is unavailable."""
    return True


BACKOFF_SECONDS = 1.0
"""After a failure of the durable store, reads that an entry can answer do not reach it for so long; then one at a time
does."""


class ReadThrough:
    """Reads of parts of one session.

    Args:
        local: the cache of this process.
        redis: the cache of all processes.
        freshness: of their entries.
        durable: the name of the durable store.

    Attributes:
        failures: of entries that could not be built or read.
    """

    def __init__(self, local: Lru, redis: ResilientCache, freshness: Freshness, durable: str) -> None:
        self._local = local
        self._redis = redis
        self._freshness = freshness
        self._durable = durable
        self.failures: EntryFailures = EntryFailures()
        self._failed_at: float | None = None
        self._in_flight = 0

    async def read(
        self,
        scope: Scope,
        thread: ThreadKey,
        answer: Answer[T],
        fetch: Callable[[CachedSession], Awaitable[T]],
        *,
        skip_local: bool = False,
    ) -> T:
        """The answer of the first level that has a fresh one.

        Args:
            scope: of the caller; an entry of another user's session does not answer.
            thread: session, and persona or ""; an entry of another incarnation than it names does not answer.
            answer: reads an entry.
            fetch: reads the durable store, and puts what can be cached into the empty entry that it is given; nothing
                of that is cached unless the session is known to be the caller's.
            skip_local: another process's acknowledged change must be visible, so the local entry, which is invalidated
                a moment later, is only a fallback.

        Raises:
            StoreUnavailable: the durable store is unavailable, and no entry can answer.
        """
        local = self._local.get(SessionKey.of(scope, thread.session_id), scope.user_id)
        if not skip_local and _matches(local, thread.incarnation):
            found = self._answer(scope, thread.session_id, local, answer, self._freshness.is_fresh_locally)
            if found is not None:
                return found[0]
        return await self._read_redis(scope, thread, local, answer, fetch)

    async def _read_redis(
        self,
        scope: Scope,
        thread: ThreadKey,
        local: CachedSession | None,
        answer: Answer[T],
        fetch: Callable[[CachedSession], Awaitable[T]],
    ) -> T:
        """The answer of Redis or else of the durable store; the fallback is an entry of any age."""
        session_id, persona_id, incarnation = thread
        key = SessionKey.of(scope, session_id)

        def answer_of(entry: CachedSession | None, is_fresh: IsFresh) -> tuple[T] | None:
            return self._answer(scope, session_id, entry, answer, is_fresh) if _matches(entry, incarnation) else None

        def fallback() -> tuple[T] | None:
            return answer_of(local, any_age) or answer_of(shared, any_age)

        with self._local.loading(key) as load:
            lookup = await self._redis.read(scope, session_id, persona_id)
            shared = None if lookup is None else lookup.entry
            if shared is not None and (found := answer_of(shared, self._freshness.is_fresh_in_redis)) is not None:
                self._local.fill(key, load, shared)
                return found[0]
            if self._in_backoff() and (found := fallback()) is not None:
                note_degraded(self._durable)
                return found[0]
            read = CachedSession(scope.user_id)
            read.incarnation = incarnation
            try:
                value = await self._noting_failure(fetch(read))
            except StoreUnavailable:
                if (found := fallback()) is None:
                    raise
                note_degraded(self._durable)
                return found[0]
            owner_known = local is not None or shared is not None or read.proves_ownership
            if owner_known and read.cacheable and not load.invalidated:
                self._local.fill(key, load, read)
                if lookup is not None:
                    await self._redis.fill(scope, session_id, lookup.revision, read)
            return value

    def _answer(
        self, scope: Scope, session_id: str, entry: CachedSession, answer: Answer[T], is_fresh: IsFresh
    ) -> tuple[T] | None:
        """The answer of an entry; one that cannot be read is dropped."""
        try:
            return answer(entry, is_fresh)
        except Exception as problem:  # noqa: BLE001 — the entry is dropped, and the failure logged
            self.failures.note("read", problem)
            self._local.drop(SessionKey.of(scope, session_id), scope.user_id)
            self._redis.invalidate_later(scope, session_id, DROP)
            return None

    def _in_backoff(self) -> bool:
        """Whether the durable store has failed, and a read of it is in flight or the failure was a moment ago."""
        return self._failed_at is not None and (self._in_flight > 0 or monotonic() - self._failed_at < BACKOFF_SECONDS)

    async def _noting_failure(self, fetching: Awaitable[T]) -> T:
        self._in_flight += 1
        try:
            value = await fetching
        except StoreUnavailable:
            self._failed_at = monotonic()
            raise
        else:
            self._failed_at = None
            return value
        finally:
            self._in_flight -= 1


def _matches(entry: CachedSession | None, incarnation: str | None) -> TypeGuard[CachedSession]:
    """Whether there is an entry, of the requested incarnation if one is requested."""
    return entry is not None and incarnation in (None, entry.incarnation)
