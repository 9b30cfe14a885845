"""Exports sessions and their messages as JSON lines that an import restores unchanged."""

from collections.abc import AsyncIterator, Sequence

from wenmai.errors import SessionNotFound
from wenmai.interchange.messages import message_line, session_line
from wenmai.interchange.records import preferences_line, trace_line
from wenmai.interchange.states import state_line
from wenmai.memory.library import Memory
from wenmai.scope import Scope


async def export_lines(
    memory: Memory, scope: Scope, session_ids: Sequence[str] | None = None, *, traces: bool = False
) -> AsyncIterator[bytes]:
    """The lines of the sessions, each complete before the next.

    A session's lines are its record, its preferences, its messages by thread and ``seq``, its business state, and on
    request its traces, oldest first.

    Threads are ordered by their start. Lines end with a line break.

    Args:
        memory: with the sessions.
        scope: their owner.
        session_ids: which, in this order; None for all of the owner, oldest first.
        traces: whether the traces are exported too.

    Raises:
        SessionNotFound: a named session is absent or foreign.
    """
    for session_id in await _all_ids(memory, scope) if session_ids is None else session_ids:
        try:
            stored = await memory.sessions.get(scope, session_id)
        except SessionNotFound:
            if session_ids is None:
                continue  # deleted since the listing
            raise
        yield session_line(stored)
        session = stored.record
        preferences = await memory.preferences.get(scope, session_id)
        if preferences.updated_at is not None:
            yield preferences_line(preferences.values)
        for info in await memory.transcript.threads(scope, session_id, incarnation=session.incarnation):
            async for message in memory.transcript.read_all(scope, session.thread(info.persona_id)):
                yield message_line(session_id, message)
        state = await memory.states.get(scope, session_id, incarnation=session.incarnation)
        if state.state_version:
            yield state_line(state, await memory.states.all_changes(scope, state))
        if traces:
            async for trace in memory.traces.of_session(scope, session):
                yield trace_line(trace)


async def _all_ids(memory: Memory, scope: Scope) -> list[str]:
    ids: list[str] = []
    cursor: str | None = None
    while True:
        page = await memory.sessions.list(scope, limit=500, cursor=cursor)
        ids += [stored.record.session_id for stored in page.items]
        cursor = page.next_cursor
        if cursor is None:
            return ids[::-1]
