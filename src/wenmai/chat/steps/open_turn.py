"""Open the session, lock the thread, and store the question with an unfinished answer message."""

import msgspec

from wenmai.chat.turn import Opened, TurnBegan, TurnRun, TurnStarted, TurnState
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.memory.derived_preferences import INCOGNITO
from wenmai.memory.idempotency import ClaimLost
from wenmai.memory.sessions import OpenedSession
from wenmai.memory.window import EMPTY_WINDOW
from wenmai.stores.records import NewMessage


async def open_turn(state: TurnState, run: TurnRun) -> TurnState:
    """Append the turn to the transcript; the question is stored before any model is called."""
    request = state["request"]
    memory = run.services.memory
    claim = run.claim
    messages = [
        NewMessage(
            role="user",
            content=request.query,
            id=claim.message_id if claim else None,
            metadata={INCOGNITO: True} if request.incognito else {},
        ),
        NewMessage(
            role="assistant",
            content="",
            id=f"{claim.message_id}-answer" if claim else None,
            completed=False,
            metadata={"trace_id": run.trace_id},
        ),
    ]
    while True:
        # A retried turn continues in the session where the first attempt may have asked.
        fallback_ids = claim.fallback_ids() if claim else None
        session = await memory.sessions.open(
            request.scope, request.session_id, fallback_ids=fallback_ids, terms=run.services.terms
        )
        thread = session.thread(request.persona_id)
        if session.created or session.stored.created_at >= request.received_at:
            await _refuse_erased(session, run)
        try:
            await run.resources.enter_async_context(memory.thread_lock.hold(request.scope, thread, request.on_conflict))
            if claim is not None and not await claim.is_held():
                raise ClaimLost
            await run.emit(TurnBegan())
            appended, window = await memory.transcript.append(
                request.scope, thread, messages, window=memory.policy.window
            )
        except (SessionExpired, SessionNotFound):
            # The session ended while this turn waited for the thread; the question starts another.
            await run.resources.aclose()
            continue
        break
    question, answer = appended.messages
    await run.emit(TurnStarted(run.trace_id, thread.session_id, answer.turn_id, request.persona_id))
    recent = window if window is not None and run.services.policy.memory_enabled else EMPTY_WINDOW
    opened = Opened(
        thread=thread,
        turn_id=answer.turn_id,
        question=question,
        answer=answer,
        window=recent.messages,  # of completed turns, which this one is not yet
        recent=recent,
        first=not session.stored.record.first_question,
    )
    return {"opened": opened, "request": msgspec.structs.replace(request, session_id=thread.session_id)}


async def _refuse_erased(session: OpenedSession, run: TurnRun) -> None:
    """Refuse a question that was received before its user was erased.

    Checked once the session exists: either the erasure sees the session, or this sees the erasure.

    Raises:
        SessionNotFound: an erasure of the user has begun since the request.
    """
    request, memory = run.state["request"], run.services.memory
    if await memory.erasures.was_erased(request.scope, request.received_at):
        record = session.stored.record
        if session.created:
            await memory.sessions.delete(request.scope, record.session_id, incarnation=record.incarnation)
        await run.services.traces.drop(request.scope, run.trace_id)
        raise SessionNotFound(record.session_id)
