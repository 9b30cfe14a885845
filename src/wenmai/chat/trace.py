"""The trace ledger: why each answer was given, kept for as long as traces are kept."""

from collections.abc import Callable, Mapping
from datetime import timedelta

from wenmai.clock import Clock
from wenmai.errors import TraceNotFound, VersionConflict
from wenmai.memory.ids import new_trace_id
from wenmai.scope import Scope
from wenmai.stores.base import Documents, Page, Stored
from wenmai.stores.records import TraceRecord


class TraceLedger:
    """Keeps traces and finds them again."""

    def __init__(self, documents: Documents, clock: Clock, *, retention: timedelta) -> None:
        self._documents = documents
        self._clock = clock
        self._retention = retention

    async def reserve(self, scope: Scope, wanted: str | None) -> str:
        """The id of a new trace: the caller's own if nobody has it yet, else a fresh one.

        That another visitor has a trace of this id must not be noticed, and an own earlier trace is not overwritten.
        """
        if wanted is None:
            return new_trace_id()
        now = self._clock()
        blank = TraceRecord(trace_id=wanted, started_at=now, completed_at=now, error="unfinished")
        try:
            await self._documents.put(scope, blank, expected=0, keep_until=now + self._retention)
        except VersionConflict:
            return new_trace_id()
        return wanted

    async def save(self, scope: Scope, trace: TraceRecord) -> None:
        """Keep the trace of a turn."""
        await self._documents.put(scope, trace, keep_until=self._clock() + self._retention)

    async def amend(self, scope: Scope, trace_id: str, edit: Callable[[TraceRecord], TraceRecord]) -> None:
        """Change a trace that is there; one that was deleted meanwhile does not come back."""
        stored = await self._documents.get(scope, TraceRecord, trace_id)
        if stored is None:
            return
        end = self._clock() + self._retention
        try:
            await self._documents.put(scope, edit(stored.record), expected=stored.version, keep_until=end)
        except VersionConflict:
            return

    async def get(self, scope: Scope, trace_id: str) -> Stored[TraceRecord]:
        """The trace of that id.

        Raises:
            TraceNotFound: absent, foreign, or past its retention.
        """
        stored = await self._documents.get(scope, TraceRecord, trace_id)
        if stored is None:
            raise TraceNotFound(trace_id)
        return stored

    async def list(
        self,
        scope: Scope,
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[TraceRecord]:
        """The user's traces, newest first; ``where`` takes session_id, npc_id, policy_mode and intent."""
        return await self._documents.list(scope, TraceRecord, where=where, limit=limit, cursor=cursor)
