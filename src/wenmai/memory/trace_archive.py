"""The traces of a session, for export and import."""

from collections.abc import AsyncIterator
from contextlib import suppress

from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import VersionConflict
from wenmai.memory.retention import RetentionPolicy
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Session, TraceRecord

_PAGE = 50


def trace_ref(scope: Scope, trace_id: str) -> str:
    """The key of a trace: callers choose ids, which must not collide between users. An id has no slash."""
    return f"{scope.user_id}/{trace_id}"


class TraceArchive:
    """Reads and restores traces."""

    def __init__(self, documents: Documents, clock: Clock, retention: RetentionPolicy) -> None:
        self._documents = documents
        self._clock = clock
        self._retention = retention

    async def of_session(self, scope: Scope, session: Session) -> AsyncIterator[TraceRecord]:
        """The traces of the session, oldest first."""
        keys: list[str] = []
        cursor, more = None, True
        while more:
            page = await self._documents.list(
                scope, TraceRecord, where={"session_id": session.session_id}, limit=_PAGE, cursor=cursor
            )
            keys += [stored.record.key for stored in page.items if stored.record.incarnation == session.incarnation]
            cursor, more = page.next_cursor, page.next_cursor is not None
        keys.reverse()
        for start in range(0, len(keys), _PAGE):
            batch = keys[start : start + _PAGE]
            found = await self._documents.get_many(scope, TraceRecord, batch)
            for key in batch:
                if key in found:
                    yield found[key].record

    async def restore(self, scope: Scope, trace: TraceRecord) -> None:
        """Store a trace under the user's name, unless it exists or is past its retention.

        Raises:
            InvalidInput: a value cannot be stored.
            SessionNotFound: the session is absent, foreign, or another incarnation.
        """
        kept = self._retention.of(scope.tenant_id).traces
        end = None if kept is None else trace.completed_at + kept
        if end is None or end > self._clock():
            with suppress(VersionConflict):
                own = replace(trace, ref=trace_ref(scope, trace.trace_id))
                await self._documents.put(scope, own, expected=0, keep_until=end)
