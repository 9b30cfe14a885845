"""Open the session, take the thread, and store the question with an unfinished record of its answer."""

import msgspec

from wenmai.chat.turn import Opened, TurnRun, TurnState
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.memory.idempotency import ClaimLost
from wenmai.stores.records import NewMessage


async def open_turn(state: TurnState, run: TurnRun) -> TurnState:
    """The turn's place in the transcript; before any model is called the question is stored."""
    request = state["request"]
    memory = run.services.memory
    claim = run.claim
    messages = [
        NewMessage(role="user", content=request.query, id=claim.message_id if claim else None),
        NewMessage(
            role="assistant",
            content="",
            id=f"{claim.message_id}-answer" if claim else None,
            completed=False,
            metadata={"trace_id": run.trace_id},
        ),
    ]
    while True:
        # A turn that is tried again goes on in the session where the first attempt may have asked.
        successors = claim.successors() if claim else None
        session = await memory.sessions.open(request.scope, request.session_id, successors=successors)
        thread = session.thread(request.npc_id)
        try:
            await run.held.enter_async_context(memory.turns.turn(request.scope, thread, request.on_conflict))
            if claim is not None and not await claim.holds():
                raise ClaimLost
            await run.emit("begin")
            appended, window = await memory.transcript.append(
                request.scope, thread, messages, window=memory.policy.window
            )
        except (SessionExpired, SessionNotFound):
            # The session ended while this turn waited for the thread; the question begins another.
            await run.held.aclose()
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
