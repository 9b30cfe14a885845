"""How a change that the durable store has acknowledged goes up the tiers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from wenmai.clock import Clock
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Stored
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.copies import Piece, SessionKey, latest
from wenmai.stores.tiers.guarded import GuardedCopies, Repair
from wenmai.stores.tiers.lru import Load, Lru


class Writing:
    """Writes through; no method raises because of an upper tier."""

    def __init__(self, lru: Lru, hot: GuardedCopies, clock: Clock) -> None:
        self._lru = lru
        self._hot = hot
        self._clock = clock

    @contextmanager
    def storing(self, scope: Scope, session_id: str) -> Iterator[Load]:
        """Around a write to the durable store; what it yields goes to the method below that tells of the change.

        No copy of the session is believed if the write fails or is cancelled: it may have been done.
        """
        key = SessionKey.of(scope, session_id)
        with self._lru.loading(key) as load:
            try:
                yield load
            except BaseException:
                self._lru.doubt(key)
                self._hot.miss(scope, session_id)
                raise

    @contextmanager
    def removing(self, scope: Scope, session_id: str, npc_ids: Sequence[str]) -> Iterator[None]:
        """Around a removal from the durable store of threads of these personas, or of all that a session is made of.

        No copy stays if it fails or is cancelled.
        """
        try:
            yield
        except BaseException:
            self._lru.forget(SessionKey.of(scope, session_id), scope.user_id)
            self._hot.miss(scope, session_id, Repair("drop", frozenset(npc_ids)))
            raise

    async def put_session(self, scope: Scope, stored: Stored[Session], load: Load) -> None:
        """The session's record was written."""
        session_id, now = stored.record.session_id, self._clock()
        with self._lru.changing(SessionKey.of(scope, session_id), stored.user_id, load) as copy:
            copy.session = latest(copy.session, Piece(stored, now))
            if stored.version == 1:
                copy.preferences, copy.threads, copy.tails = Piece(None, now), Piece([], now), {}
        await self._hot.tell(scope, session_id, lambda copies: copies.put_session(scope, stored))

    async def put_preferences(self, scope: Scope, stored: Stored[Preferences], load: Load) -> None:
        """The session's preferences were written."""
        session_id = stored.record.session_id
        with self._lru.changing(SessionKey.of(scope, session_id), stored.user_id, load) as copy:
            copy.preferences = latest(copy.preferences, Piece(stored, self._clock()))
        await self._hot.tell(scope, session_id, lambda copies: copies.put_preferences(scope, stored))

    async def append(self, scope: Scope, thread: ThreadKey, appended: Appended, load: Load, *, slide: bool) -> None:
        """Messages were appended."""
        now = self._clock()
        with self._lru.changing(SessionKey.of(scope, thread.session_id), scope.user_id, load) as copy:
            expires_at = copy.slide(now) if slide else None
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
        with self._lru.changing(SessionKey.of(scope, thread.session_id), scope.user_id, load) as copy:
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
