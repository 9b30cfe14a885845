"""The trace ledger: how each answer came about, kept for the retention of traces."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import Conflict, InvalidInput, SessionNotFound, TraceNotFound, VersionConflict
from wenmai.memory.ids import new_trace_id
from wenmai.memory.retention import RetentionPolicy
from wenmai.memory.trace_archive import trace_ref
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Feedback, Rating, TraceRecord
from wenmai.stores.structs import Page, Stored
from wenmai.stores.update import update


class TraceLedger:
    """Stores and finds traces."""

    def __init__(self, documents: Documents, clock: Clock, *, retention: RetentionPolicy) -> None:
        self._documents = documents
        self._clock = clock
        self._retention = retention

    def _end(self, scope: Scope) -> datetime | None:
        kept = self._retention.of(scope.tenant_id).traces
        return None if kept is None else self._clock() + kept

    async def reserve(self, scope: Scope, wanted: str | None) -> str:
        """The id of a new trace: the wanted one unless the user already has a trace of that id, else a new one."""
        if wanted is None:
            return new_trace_id()
        now = self._clock()
        blank = TraceRecord(
            ref=trace_ref(scope, wanted), trace_id=wanted, started_at=now, completed_at=now, error="unfinished"
        )
        try:
            await self._documents.put(scope, blank, expected=0, keep_until=self._end(scope))
        except VersionConflict:
            return new_trace_id()
        return wanted

    async def save(self, scope: Scope, trace: TraceRecord) -> None:
        """Store the trace of a turn; not if its session was deleted meanwhile."""
        try:
            await self._documents.put(scope, trace, keep_until=self._end(scope))
        except SessionNotFound:
            await self.drop(scope, trace.trace_id)

    async def drop(self, scope: Scope, trace_id: str) -> None:
        """Delete the trace of a turn that was deleted from the transcript."""
        await self._documents.delete(scope, TraceRecord, trace_ref(scope, trace_id))

    async def amend(self, scope: Scope, trace_id: str, edit: Callable[[TraceRecord], TraceRecord]) -> None:
        """Change an existing trace; a deleted one is not recreated, and one that others change all the time is left."""

        def edited(stored: Stored[TraceRecord] | None) -> TraceRecord:
            if stored is None:
                raise TraceNotFound(trace_id)
            return edit(stored.record)

        end = self._end(scope)
        with suppress(TraceNotFound, SessionNotFound, Conflict):
            await update(self._documents, scope, TraceRecord, trace_ref(scope, trace_id), edited, keep_until=end)

    async def rate(self, scope: Scope, trace_id: str, rating: Rating | None, reason: str = "") -> Feedback | None:
        """Set the user's feedback on the answer of a trace, or remove it; returned as stored, without private values.

        Raises:
            TraceNotFound: absent, foreign, or past its retention.
            InvalidInput: the turn has no answer.
            Conflict: others change the trace all the time.
        """
        feedback = Feedback(rating=rating, reason=reason, at=self._clock()) if rating else UNSET
        known = await self.get(scope, trace_id)

        def rated(stored: Stored[TraceRecord] | None) -> TraceRecord:
            if stored is None:
                raise TraceNotFound(trace_id)
            trace = stored.record
            if trace.details.answer is None:
                raise InvalidInput("trace_id", trace_id, "a trace with an answer")
            return replace(trace, details=replace(trace.details, feedback=feedback))

        kept = self._retention.of(scope.tenant_id).traces
        end = None if kept is None else known.record.completed_at + kept
        ref = trace_ref(scope, trace_id)
        stored = await update(self._documents, scope, TraceRecord, ref, rated, keep_until=end, known=known)
        return stored.record.details.feedback or None

    async def get(self, scope: Scope, trace_id: str) -> Stored[TraceRecord]:
        """The trace of that id.

        Raises:
            TraceNotFound: absent, foreign, or past its retention.
        """
        stored = await self._documents.get(scope, TraceRecord, trace_ref(scope, trace_id))
        if stored is None:
            raise TraceNotFound(trace_id)
        return stored

    async def has_answer(self, scope: Scope, trace_id: str) -> bool:
        """Whether the trace has an answer."""
        stored = await self._documents.get(scope, TraceRecord, trace_ref(scope, trace_id))
        return stored is not None and stored.record.details.answer is not None

    async def list(
        self,
        scope: Scope,
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[TraceRecord]:
        """The user's traces, newest first; ``where`` takes session_id, persona_id, policy_mode and intent."""
        return await self._documents.list(scope, TraceRecord, where=where, limit=limit, cursor=cursor)
