"""Removes what is past its retention: whole sessions, and entries of the recall index.

Traces have their end in the store already (``keep_until``), as has everything that is stored with one.
"""

import asyncio
import logging
from datetime import timedelta

from wenmai.clock import Clock, to_micros
from wenmai.errors import Undecipherable
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.retention import RetentionPolicy
from wenmai.memory.sessions import Sessions
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.records import Session
from wenmai.stores.structs import ActiveThread

_log = logging.getLogger(__name__)

PAGE = 200
PAUSE_SECONDS = 0.01
"""Between pages, so that a sweep leaves the store to others."""


class RetentionSweep:
    """Applies a retention policy to the threads of all tenants, which it enumerates.

    A session without messages is found with the other sessions of its user.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        sessions: Sessions,
        episodes: EpisodeIndex | None,
        clock: Clock,
        policy: RetentionPolicy,
    ) -> None:
        self._documents = documents
        self._logs = logs
        self._sessions = sessions
        self._episodes = episodes
        self._clock = clock
        self._policy = policy

    async def run(self) -> int:
        """Remove what is past its retention; returns how many sessions were.

        Raises:
            StoreError: a store failed; the next sweep begins again.
        """
        if not self._policy.is_limited:
            return 0
        removed, owners, cursor, more = 0, dict[Scope, None](), None, True
        while more:
            page = await self._logs.active_threads(cursor=cursor, limit=PAGE)
            owners |= dict.fromkeys(one.scope for one in page.items)
            for one in page.items:
                removed += await self._remove_session(one)
            cursor, more = page.next_cursor, page.next_cursor is not None
            await asyncio.sleep(PAUSE_SECONDS)
        for owner in owners:
            removed += await self._remove_of(owner)
        _log.log(logging.INFO if removed else logging.DEBUG, "%d sessions were past their retention", removed)
        return removed

    async def _remove_session(self, found: ActiveThread) -> bool:
        """Remove the thread's session if it is past its retention."""
        kept = self._policy.of(found.scope.tenant_id).sessions
        if kept is None or self._clock() < found.active_at + kept:
            return False
        stored = await self._documents.get(found.scope, Session, found.thread.session_id)
        if stored is None or stored.record.incarnation != found.thread.incarnation:
            return False
        return await self._remove_if_past(found.scope, stored.record, kept)

    async def _remove_of(self, owner: Scope) -> int:
        """Remove the user's entries past their retention, and sessions without messages."""
        retention, removed = self._policy.of(owner.tenant_id), 0
        if retention.episodes is not None and self._episodes is not None:
            await self._episodes.remove_before(owner, to_micros(self._clock() - retention.episodes))
        cursor, more = None, retention.sessions is not None
        while more and retention.sessions is not None:
            page = await self._documents.list(owner, Session, limit=PAGE, cursor=cursor)
            for stored in page.items:
                removed += await self._remove_if_past(owner, stored.record, retention.sessions)
            cursor, more = page.next_cursor, page.next_cursor is not None
        return removed

    async def _remove_if_past(self, owner: Scope, session: Session, kept: timedelta) -> bool:
        """Nothing is appended to a session past its end, so none is removed that is used again meanwhile."""
        if self._clock() < session.expires_at + kept:
            return False
        try:
            return await self._sessions.delete(owner, session.session_id, incarnation=session.incarnation)
        except Undecipherable as problem:  # an erasure of the user removes it
            _log.warning("session %s is past its retention and cannot be removed: %s", session.session_id, problem)
            return False
