"""Talk with personas: chat, what a session remembers, preferences, and why each answer was given."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Header, Path, Query, Request
from starlette.responses import Response

from wenmai.chat.pipeline import Replay
from wenmai.chat.turn import TurnRequest
from wenmai.chat.types import Intent, PolicyMode
from wenmai.engine import Engine
from wenmai.errors import InvalidInput, SessionNotFound
from wenmai.http import stream
from wenmai.http.asking import ask, ask_streamed
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.parts import Parts, TheEngine, TheParts
from wenmai.http.reply import reply
from wenmai.http.running import Turn
from wenmai.http.scope import CallerScope, HeadersGiven, KeyHeader, TraceHeader
from wenmai.http.shapes.common import ID_PATTERN, CursorQuery, NpcIdQuery, PageLimit, SessionIdPath
from wenmai.http.shapes.npc import (
    ChatAnswer,
    ChatBody,
    Deleted,
    PreferenceAnswer,
    PreferenceBody,
    ReplayShown,
    SessionSummary,
    Tag,
    TracePage,
    TraceWithSession,
)
from wenmai.http.shown import preference_shown, session_summary, trace_line, trace_shown
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope

router = APIRouter(prefix="/api/v1/npc", tags=["npc"], route_class=JsonRoute)

TraceIdPath = Annotated[str, Path(pattern=ID_PATTERN, description="The trace's id.")]
RecentLimit = Annotated[int, Query(ge=1, le=500, description="How many recent messages.")]

_STREAM_EXAMPLE = """\
event: start
data: {"trace_id":"trace-5f0c2f7a9b1e4d33","session_id":"my-session","turn_id":1,"npc_id":"ancestor_yan"}

event: step
data: {"name":"open","status":"ok","duration_ms":1.2}

event: token
data: {"text":"后生问得好。"}

event: replace
data: {"text":"后生问得好。祠堂始建于1523年。"}

event: done
data: {"trace_id":"trace-5f0c2f7a9b1e4d33","session_id":"my-session","turn_id":1,"policy_mode":"normal"}
"""


@router.post(
    "/chat",
    summary="Ask a persona",
    response_model=ChatAnswer,
    responses=problems(404, 409, 413)
    | {
        200: {
            "description": "The answer; or events `start`, `step`, `token`, `replace`, `done`, `error`",
            "content": {stream.MEDIA_TYPE: {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}},
        }
    },
)
async def chat(
    body: ChatBody,
    headers: HeadersGiven,
    parts: TheParts,
    connection: Request,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
    trace_id: TraceHeader = None,
    idempotency_key: KeyHeader = None,
) -> Response:
    """One turn: the question is stored, answered from evidence, and the answer stored before it is sent."""
    request = TurnRequest(
        scope=headers.scope_with(body.owner()),
        npc_id=body.npc_id,
        query=body.query,
        session_id=body.session_id,
        incognito=body.incognito,
        trace_id=trace_id,
        idempotency_key=idempotency_key,
        on_conflict=body.on_conflict,
    )
    streamed = body.stream or stream.MEDIA_TYPE in accept
    return await (ask_streamed if streamed else ask)(parts, request, connection.receive)


@router.get(
    "/sessions/{session_id}",
    summary="What a session remembers",
    response_model=SessionSummary,
    responses=problems(404),
)
async def read_session(
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: TheEngine,
    npc_id: NpcIdQuery = None,
    max_messages: RecentLimit = 10,
) -> Response:
    """The newest messages with one persona, or with all of them by time, and the preferences."""
    return reply(await session_summary(engine, scope, session_id, npc_id, max_messages))


@router.delete(
    "/sessions/{session_id}",
    summary="Forget a session or one persona's part of it",
    response_model=Deleted,
    responses=problems(404),
)
async def delete_session(
    session_id: SessionIdPath, scope: CallerScope, engine: TheEngine, npc_id: NpcIdQuery = None
) -> Response:
    """Removes one persona's thread, or all of the session, with their traces; what is gone is not found."""
    if npc_id is not None:
        await engine.memory.sessions.forget_persona(scope, session_id, npc_id)
    elif not await engine.memory.sessions.delete(scope, session_id):
        raise SessionNotFound(session_id)
    return reply({"success": True, "session_id": session_id})


@router.put(
    "/sessions/{session_id}/preference",
    summary="Set preferences",
    response_model=PreferenceAnswer,
    responses=problems(404, 413),
)
async def set_preference(  # noqa: PLR0917 — FastAPI passes them by name
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: TheEngine,
    body: Annotated[PreferenceBody | None, Body()] = None,
    verbosity: Annotated[str | None, Query(description="brief, normal or detailed")] = None,
    tone: Annotated[str | None, Query(description="casual, formal or respectful")] = None,
    language: Annotated[str | None, Query(description="A BCP 47 tag")] = None,
    interest_tag: Annotated[list[Tag], Query(description="Tags to add")] = [],  # noqa: B006 — FastAPI copies it
    remove_interest_tag: Annotated[list[Tag], Query(description="Tags to take away")] = [],  # noqa: B006
) -> Response:
    """By query parameters or by a JSON body, not both; for every persona. Answers what is now stored."""
    by_query = PreferenceChange(
        verbosity=verbosity,
        tone=tone,
        language=language,
        add_interest_tags=tuple(interest_tag),
        remove_interest_tags=tuple(remove_interest_tag),
    )
    if body is not None and by_query != PreferenceChange():
        raise InvalidInput("body", body, "given together with query parameters: use one of the two")
    change = by_query if body is None else PreferenceChange(**body.model_dump())
    await engine.memory.sessions.get(scope, session_id)
    stored = await engine.memory.preferences.set(scope, session_id, change)
    return reply({"success": True, "preference": preference_shown(stored)})


@router.get("/traces", summary="List traces", response_model=TracePage, responses=problems())
async def list_traces(
    scope: CallerScope,
    engine: TheEngine,
    session_id: Annotated[str | None, Query(pattern=ID_PATTERN, description="Only of this session.")] = None,
    npc_id: Annotated[str | None, Query(pattern=ID_PATTERN, description="Only of this persona.")] = None,
    policy_mode: Annotated[PolicyMode | None, Query(description="Only of turns that were answered so.")] = None,
    intent: Annotated[Intent | None, Query(description="Only of questions that were taken for this.")] = None,
    limit: PageLimit = 20,
    cursor: CursorQuery = None,
) -> Response:
    """The visitor's traces, newest first, without what the model was shown."""
    filters = {"session_id": session_id, "npc_id": npc_id, "policy_mode": policy_mode, "intent": intent}
    where = {field: str(value) for field, value in filters.items() if value is not None}
    page = await engine.traces.list(scope, where=where, limit=limit, cursor=cursor)
    return reply({"traces": [trace_line(each.record) for each in page.items], "next": page.next_cursor})


@router.get(
    "/traces/{trace_id}",
    summary="Why was it answered so?",
    response_model=TraceWithSession,
    responses=problems(404),
)
async def read_trace(
    trace_id: TraceIdPath,
    scope: CallerScope,
    engine: TheEngine,
    include_session: Annotated[bool, Query(description="Show the session as it is now, too.")] = False,  # noqa: FBT002
) -> Response:
    """The steps, the evidence, the very blocks the model saw, the policy and its reason."""
    stored = await engine.traces.get(scope, trace_id)
    shown = trace_shown(stored.record, stored.user_id)
    if include_session:
        shown["session_summary"] = await _summary_if_there(engine, scope, stored.record.session_id)
    return reply(shown)


@router.post(
    "/traces/{trace_id}/replay",
    summary="Ask the same again",
    response_model=ReplayShown,
    responses=problems(404, 429, 502),
)
async def replay_trace(trace_id: TraceIdPath, scope: CallerScope, parts: TheParts) -> Response:
    """The same blocks to the same model; both answers. The transcript is not touched."""
    replay = await parts.turns.start(lambda turn: _replayed(parts, scope, trace_id, turn)).answer()
    return reply(
        {
            "original": trace_shown(replay.original, scope.user_id),
            "replayed": trace_shown(replay.replayed, scope.user_id),
        }
    )


async def _replayed(parts: Parts, scope: Scope, trace_id: str, turn: Turn[Replay]) -> Replay:
    turn.begin()
    return await parts.engine.chat.replay(scope, trace_id)


async def _summary_if_there(engine: Engine, scope: Scope, session_id: str) -> dict[str, Any] | None:
    try:
        return await session_summary(engine, scope, session_id, None, 10)
    except SessionNotFound:
        return None
