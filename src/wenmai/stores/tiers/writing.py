"""How a change that the durable store has acknowledged goes up the tiers."""

from collections.abc import Iterator
from contextlib import contextmanager

from wenmai.clock import Clock
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Stored
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.copies import Piece, SessionKey
from wenmai.stores.tiers.guarded import GuardedCopies
from wenmai.stores.tiers.lru import Lru


class Writing:
    """Writes through; no method raises because of an upper tier."""

    def __init__(self, lru: Lru, hot: GuardedCopies, clock: Clock) -> None:
        self._lru = lru
        self._hot = hot
        self._clock = clock

    @contextmanager
    def in_doubt_if_it_fails(self, scope: Scope, session_id: str) -> Iterator[None]:
        """Believe no copy of the session if the write within fails or is cancelled: it may have been done."""
        try:
            yield
        except BaseException:
            self._lru.doubt(SessionKey.of(scope, session_id))
            self._hot.miss(scope, session_id)
            raise

    async def put_session(self, scope: Scope, stored: Stored[Session]) -> None:
        """The session's record was written."""
        session_id, now = stored.record.session_id, self._clock()
        with self._lru.changing(SessionKey.of(scope, session_id), stored.user_id) as copy:
            copy.session = Piece(stored, now)
            if stored.version == 1:
                copy.preferences, copy.threads, copy.tails = Piece(None, now), Piece([], now), {}
        await self._hot.tell(scope, session_id, lambda copies: copies.put_session(scope, stored))

    async def put_preferences(self, scope: Scope, stored: Stored[Preferences]) -> None:
        """The session's preferences were written."""
        session_id = stored.record.session_id
        with self._lru.changing(SessionKey.of(scope, session_id), stored.user_id) as copy:
            copy.preferences = Piece(stored, self._clock())
        await self._hot.tell(scope, session_id, lambda copies: copies.put_preferences(scope, stored))

    async def append(self, scope: Scope, thread: ThreadKey, appended: Appended, *, slide: bool) -> None:
        """Messages were appended."""
        now = self._clock()
        with self._lru.changing(SessionKey.of(scope, thread.session_id), scope.user_id) as copy:
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

    async def settle(self, scope: Scope, thread: ThreadKey, message: Message) -> None:
        """A message was filled."""
        with self._lru.changing(SessionKey.of(scope, thread.session_id), scope.user_id) as copy:
            if thread.npc_id in copy.tails:
                copy.tails[thread.npc_id].settle(message)
        await self._hot.tell(scope, thread.session_id, lambda copies: copies.settle(scope, thread, message))

    async def drop(self, scope: Scope, session_id: str) -> None:
        """The session or a part of it was removed; nothing of it stays anywhere."""
        self._lru.forget(SessionKey.of(scope, session_id))
        await self._hot.tell(scope, session_id, lambda copies: copies.drop(scope, session_id), "drop")
