"""How a change that the durable store has acknowledged goes up the tiers."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from wenmai.errors import Conflict, InvalidInput, NotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Stored
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.copies import Piece, SessionKey, latest
from wenmai.stores.tiers.guarded import GuardedCopies
from wenmai.stores.tiers.lru import Load, Lru
from wenmai.stores.tiers.missed import RECHECK, Repair
from wenmai.stores.tiers.trust import Moments

T = TypeVar("T")

DRAIN_SECONDS = 1.0


class Writing:
    """Writes through; no method raises because of an upper tier or of a copy."""

    def __init__(self, lru: Lru, hot: GuardedCopies, now: Moments) -> None:
        self._lru = lru
        self._hot = hot
        self._now = now
        self._writes: set[asyncio.Task[Any]] = set()

    async def storing(self, scope: Scope, session_id: str, write: Coroutine[Any, Any, T]) -> tuple[T, Load]:
        """The result of a write to the durable store, and what goes with it to the method below that tells of it.

        No copy of the session is trusted if the write fails, or its caller is cancelled: it may have been done.
        """
        key = SessionKey.of(scope, session_id)

        def doubt() -> None:
            self._lru.doubt(key)
            self._hot.miss(scope, session_id)

        with self._lru.loading(key) as load:
            return await self._to_the_end(scope, session_id, write, doubt), load

    async def removing(self, scope: Scope, session_id: str, npc_ids: Sequence[str], write: Coroutine[Any, Any, T]) -> T:
        """The result of a removal of threads of these personas, or of all that a session is made of.

        No copy stays if it fails, or its caller is cancelled.
        """

        def forget() -> None:
            self._lru.forget(SessionKey.of(scope, session_id), scope.user_id)
            self._hot.miss(scope, session_id, Repair("drop", frozenset(npc_ids)))

        return await self._to_the_end(scope, session_id, write, forget)

    async def _to_the_end(
        self, scope: Scope, session_id: str, write: Coroutine[Any, Any, T], unheard: Callable[[], None]
    ) -> T:
        """The write's result; ``unheard`` is called if it fails, and if the caller is cancelled: then, and at its end.

        The durable store may do later what no caller waits for any more, and copies may be made in between. A refusal
        has changed nothing; it says at most that the caller's own copies are stale, and of another user's nothing.
        """
        task = asyncio.ensure_future(write)
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        try:
            return await asyncio.shield(task)
        except InvalidInput:
            raise
        except (NotFound, Conflict):
            self._lru.recheck(SessionKey.of(scope, session_id), scope.user_id)
            self._hot.miss(scope, session_id, RECHECK)
            raise
        except BaseException:
            unheard()
            if not task.done():
                task.add_done_callback(lambda _: unheard())
            raise

    async def drain(self) -> None:
        """End the writes that nobody waits for any more; they have a moment to do so by themselves."""
        if self._writes:
            _, late = await asyncio.wait(self._writes, timeout=DRAIN_SECONDS)
            for write in late:
                write.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def put_session(self, scope: Scope, stored: Stored[Session], load: Load) -> None:
        """The session's record was written."""
        session_id, now = stored.record.session_id, self._now()
        key = SessionKey.of(scope, session_id)
        self._lru.replace_earlier(key, stored)
        with self._lru.changing(key, stored.user_id, stored.record.incarnation, load) as copy:
            copy.session = latest(copy.session, Piece(stored, now))
            if stored.version == 1:
                copy.preferences, copy.threads, copy.tails = Piece(None, now), Piece([], now), {}
        await self._hot.tell(scope, session_id, lambda copies: copies.put_session(scope, stored))

    async def put_preferences(self, scope: Scope, stored: Stored[Preferences], load: Load) -> None:
        """The session's preferences were written."""
        session_id, incarnation = stored.record.session_id, stored.record.incarnation
        with self._lru.changing(SessionKey.of(scope, session_id), stored.user_id, incarnation, load) as copy:
            copy.preferences = latest(copy.preferences, Piece(stored, self._now()))
        await self._hot.tell(scope, session_id, lambda copies: copies.put_preferences(scope, stored))

    async def append(self, scope: Scope, thread: ThreadKey, appended: Appended, load: Load, *, slide: bool) -> None:
        """Messages were appended."""
        now, expires_at = self._now(), None
        thread = thread._replace(incarnation=appended.incarnation)
        key = SessionKey.of(scope, thread.session_id)
        with self._lru.changing(key, scope.user_id, appended.incarnation, load) as copy:
            expires_at = copy.slide(now.wall) if slide else None
            if appended.repeated:
                copy.forget_thread(thread.npc_id)
            else:
                copy.grow(thread.npc_id, appended.messages, now)
        if appended.repeated:
            # Which of the messages are new is not told.
            await self._hot.tell(scope, thread.session_id, lambda copies: copies.forget_thread(scope, thread))
            return
        await self._hot.tell(
            scope, thread.session_id, lambda copies: copies.append(scope, thread, appended.messages, expires_at)
        )

    async def settle(self, scope: Scope, thread: ThreadKey, message: Message, load: Load) -> None:
        """A message was filled."""
        key = SessionKey.of(scope, thread.session_id)
        with self._lru.changing(key, scope.user_id, thread.incarnation, load) as copy:
            if thread.npc_id in copy.tails:
                copy.tails[thread.npc_id].settle(message)
        await self._hot.tell(scope, thread.session_id, lambda copies: copies.settle(scope, thread, message))

    async def drop(self, scope: Scope, session_id: str, npc_ids: Sequence[str]) -> None:
        """The session or a part of it was removed; nothing of it, or of its threads with these personas, stays."""
        self._lru.forget(SessionKey.of(scope, session_id), scope.user_id)
        await self._hot.tell(
            scope,
            session_id,
            lambda copies: copies.drop(scope, session_id, npc_ids),
            Repair("drop", frozenset(npc_ids)),
        )
