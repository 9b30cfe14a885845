"""Open the session, take the thread, and store the question with an unfinished record of its answer."""

import msgspec

from wenmai.chat.turn import Opened, TurnRun, TurnState
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.memory.idempotency import message_id_for, session_id_for
from wenmai.scope import ThreadKey
from wenmai.stores.records import NewMessage


async def open_turn(state: TurnState, run: TurnRun) -> TurnState:
    """The turn's place in the transcript; before any model is called the question is stored."""
    request = state["request"]
    memory = run.services.memory
    key = request.idempotency_key
    question_id = message_id_for(key) if key else None
    messages = [
        NewMessage(role="user", content=request.query, id=question_id),
        NewMessage(
            role="assistant",
            content="",
            id=question_id and f"{question_id}-answer",
            completed=False,
            metadata={"trace_id": run.trace_id},
        ),
    ]
    # A turn that is tried again goes on in the session where the first attempt may have asked.
    instead = session_id_for(request.scope, key) if key else None
    session_id = request.session_id
    while True:
        session = await memory.sessions.open(request.scope, session_id, instead=instead)
        thread = ThreadKey(session.session_id, request.npc_id)
        await run.held.enter_async_context(memory.turns.turn(request.scope, thread, request.on_conflict))
        try:
            appended, window = await memory.transcript.append(
                request.scope, thread, messages, window=memory.policy.window
            )
        except (SessionExpired, SessionNotFound):
            # It ended while this turn waited for the thread; the talk goes on in a session of its own.
            await run.held.aclose()
            session_id = instead
            continue
        break
    answer = appended.messages[1]
    await run.emit(
        "start",
        trace_id=run.trace_id,
        session_id=thread.session_id,
        turn_id=answer.turn_id,
        npc_id=request.npc_id,
    )
    seen = window.messages if window is not None and run.services.policy.memory_enabled else []
    opened = Opened(
        thread=thread,
        turn_id=answer.turn_id,
        answer=answer,
        window=seen,  # of completed turns, which this one is not yet
        first=not session.stored.record.first_question,
        untitled=not session.stored.record.title_by,
    )
    return {"opened": opened, "request": msgspec.structs.replace(request, session_id=thread.session_id)}
