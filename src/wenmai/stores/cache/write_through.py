"""Writes through the cache: a change that the durable store has acknowledged updates the entries."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from wenmai.errors import Conflict, InvalidInput, NotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import SessionKey
from wenmai.stores.cache.freshness import MomentClock
from wenmai.stores.cache.lru import Load, Lru
from wenmai.stores.cache.pending import MARK_OWN_STALE, PendingInvalidation
from wenmai.stores.cache.resilient import ResilientCache
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import Message, Session
from wenmai.stores.structs import Appended, Stored

T = TypeVar("T")

DRAIN_SECONDS = 1.0


class WriteThrough:
    """Writes through; no method raises because of the cache."""

    def __init__(self, local: Lru, redis: ResilientCache, now: MomentClock) -> None:
        self._local = local
        self._redis = redis
        self._now = now
        self._writes: set[asyncio.Task[Any]] = set()

    async def store(self, scope: Scope, session_id: str, write: Coroutine[Any, Any, T]) -> tuple[T, Load]:
        """Write to the durable store: the result, and the load for the method below that propagates it.

        The session's entries are marked stale if the write fails or its caller is cancelled: it may have been done.
        """
        key = SessionKey.of(scope, session_id)

        def mark_stale() -> None:
            self._local.mark_stale(key)
            self._redis.invalidate_later(scope, session_id)

        with self._local.loading(key) as load:
            return await self._run(scope, session_id, write, mark_stale), load

    async def remove(
        self, scope: Scope, session_id: str, persona_ids: Sequence[str], write: Coroutine[Any, Any, T]
    ) -> T:
        """Remove threads of these personas, or all parts of a session, from the durable store: the result.

        The session's entries are dropped if it fails or its caller is cancelled.
        """

        def drop() -> None:
            self._local.drop(SessionKey.of(scope, session_id), scope.user_id)
            self._redis.invalidate_later(scope, session_id, PendingInvalidation("drop", frozenset(persona_ids)))

        return await self._run(scope, session_id, write, drop)

    async def _run(
        self, scope: Scope, session_id: str, write: Coroutine[Any, Any, T], invalidate: Callable[[], None]
    ) -> T:
        """The write's result; ``invalidate`` is called if it fails, and on cancellation: then and at the write's end.

        A cancelled write may still be committed later, and entries may be filled in between. A refusal has changed
        nothing; it shows at most that the caller's own entries are stale, and nothing about another user's.
        """
        task = asyncio.ensure_future(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(task)
        except InvalidInput:
            raise
        except (NotFound, Conflict):
            self._local.mark_own_stale(SessionKey.of(scope, session_id), scope.user_id)
            self._redis.invalidate_later(scope, session_id, MARK_OWN_STALE)
            raise
        except BaseException:
            invalidate()
            if not task.done():
                task.add_done_callback(lambda _: invalidate())
            raise

    async def drain(self) -> None:
        """End the writes of cancelled callers: wait for them for a moment, then cancel them."""
        if self._writes:
            _, late = await asyncio.wait(self._writes, timeout=DRAIN_SECONDS)
            for write in late:
                write.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def put(self, scope: Scope, stored: Stored[Any], load: Load) -> None:
        """A record was written: a session's own, or one bound to it."""
        record, session_id = stored.record, stored.record.key
        key = SessionKey.of(scope, session_id)
        if type(record) is Session:
            self._local.drop_predecessor(key, stored)
        with self._local.updating(key, stored.user_id, getattr(record, INCARNATION), load) as entry:
            entry.put(stored, self._now())
        await self._redis.propagate(scope, session_id, lambda cache: cache.put(scope, stored))

    async def append(self, scope: Scope, thread: ThreadKey, appended: Appended, load: Load, *, slide: bool) -> None:
        """Messages were appended."""
        now, expires_at = self._now(), None
        thread = thread._replace(incarnation=appended.incarnation)
        key = SessionKey.of(scope, thread.session_id)
        with self._local.updating(key, scope.user_id, appended.incarnation, load) as entry:
            expires_at = entry.slide(now.wall) if slide else None
            if appended.repeated:
                entry.drop_thread(thread.persona_id)
            else:
                entry.extend(thread.persona_id, appended.messages, now)
        if appended.repeated:
            # The result does not say which of the messages are new.
            await self._redis.propagate(scope, thread.session_id, lambda cache: cache.drop_thread(scope, thread))
            return
        await self._redis.propagate(
            scope, thread.session_id, lambda cache: cache.append(scope, thread, appended.messages, expires_at)
        )

    async def complete(self, scope: Scope, thread: ThreadKey, message: Message, load: Load) -> None:
        """A message was completed."""
        key = SessionKey.of(scope, thread.session_id)
        with self._local.updating(key, scope.user_id, thread.incarnation, load) as entry:
            if thread.persona_id in entry.tails:
                entry.tails[thread.persona_id].complete(message)
        await self._redis.propagate(scope, thread.session_id, lambda cache: cache.complete(scope, thread, message))

    async def drop(self, scope: Scope, session_id: str, persona_ids: Sequence[str]) -> None:
        """The session or a part of it was removed; its entries, and its threads with these personas, are dropped."""
        self._local.drop(SessionKey.of(scope, session_id), scope.user_id)
        await self._redis.propagate(
            scope,
            session_id,
            lambda cache: cache.drop(scope, session_id, persona_ids),
            PendingInvalidation("drop", frozenset(persona_ids)),
        )
