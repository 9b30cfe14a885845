"""Chat with personas: turns, session summaries, preferences and traces."""

from typing import Annotated

from fastapi import APIRouter, Body, Depends, Query, Request
from starlette.responses import Response

from wenmai.chat.replaying import Replay
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.errors import InvalidInput, SessionNotFound
from wenmai.grounding.types import DialogueAct, PolicyMode
from wenmai.http import stream
from wenmai.http.dependencies import AppStateDep, EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import ID_PATTERN, CursorQuery, PageLimit, PersonaIdQuery, SessionIdPath, TraceIdPath
from wenmai.http.schemas.npc import ChatBody, PreferenceBody, ReplayBody, Tag
from wenmai.http.scope import CallerScope, IdempotencyKeyHeader, ScopeHeadersDep, TraceHeader, get_scope
from wenmai.http.turn_requests import run_turn, stream_turn
from wenmai.http.turn_tasks import TurnTask
from wenmai.http.views.sessions import (
    Deleted,
    PreferenceAnswer,
    SummaryView,
    preference_view,
    summary_view,
    thread_summary_view,
)
from wenmai.http.views.traces import (
    ReplayModels,
    ReplayView,
    TracePage,
    TraceWithSession,
    trace_summary,
    trace_view,
    trace_with_session,
)
from wenmai.memory.preferences import PreferenceChange
from wenmai.scope import Scope, ThreadKey

router: APIRouter = resource_router("/api/v1/npc", tag="npc", route_class=JsonRoute)

RecentLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of recent messages.")]

_STREAM_EXAMPLE = """\
event: start
data: {"trace_id":"trace-5f0c2f7a9b1e4d33","session_id":"my-session","turn_id":1,"npc_id":"keeper"}

event: step
data: {"name":"open","status":"ok","duration_ms":1.2}

event: token
data: {"text":"日志里有记载。"}

event: replace
data: {"text":"日志里有记载。灯塔建于1874年。"}

event: done
data: {"trace_id":"trace-5f0c2f7a9b1e4d33","session_id":"my-session","turn_id":1,"policy_mode":"normal"}
"""


_ANSWER_EXAMPLE = {
    "trace_id": "trace-5f0c2f7a9b1e4d33",
    "session_id": "session-8b6f0a1c2d3e4f50",
    "turn_id": 1,
    "policy_mode": "normal",
    "answer_text": "日志里写着：灯塔建于1874年。",
    "citations": [
        {
            "evidence_id": "ev-0f3a",
            "title": "灯塔日志·卷一",
            "source_ref": "log_book.md",
            "excerpt": "灯塔建于1874年，用灰色花岗岩。",
            "score": 0.82,
        }
    ],
    "followup_questions": ["灯光能照多远？"],
    "npc_id": "keeper",
    "npc_name": "守塔人",
    "latency_ms": 6.2,
    "timestamp": "2026-01-05T14:00:00.120000Z",
    "degraded": [],
}


@router.post(
    "/chat",
    summary="Ask a persona",
    responses=problems(404, 409, 413)
    | {
        200: {
            "description": "The answer; or a stream of the events `start`, `step`, `token`, `replace`, `done`, `error`",
            "content": {
                "application/json": {"example": _ANSWER_EXAMPLE},
                stream.MEDIA_TYPE: {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE},
            },
        }
    },
)
async def chat(
    body: ChatBody,
    headers: ScopeHeadersDep,
    app_state: AppStateDep,
    connection: Request,
    trace_id: TraceHeader = None,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Json[TurnAnswer] | Response:
    """Run one turn: store the question, answer it from evidence, store the answer, then send it."""
    request = TurnRequest(
        scope=headers.scope_with(body.scope_fields()),
        persona_id=body.persona_id,
        query=body.query,
        session_id=body.session_id,
        role=body.role,
        incognito=body.incognito,
        trace_id=trace_id,
        idempotency_key=idempotency_key,
        on_conflict=body.on_conflict,
    )
    streamed = body.stream or stream.MEDIA_TYPE in connection.headers.get("accept", "")
    return await (stream_turn if streamed else run_turn)(
        app_state, request, connection.receive, app_state.engine.chat.ask
    )


@router.get(
    "/sessions/{session_id}",
    summary="Read a session",
    responses=problems(404),
)
async def read_conversation(
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: EngineDep,
    persona_id: PersonaIdQuery = None,
    max_messages: RecentLimit = 10,
) -> Json[SummaryView]:
    """The newest messages of one persona, or of all personas merged by time, and the preferences."""
    return Json(
        summary_view(await engine.memory.history.overview(scope, session_id, max_messages, persona_id=persona_id))
    )


@router.delete(
    "/sessions/{session_id}",
    summary="Delete a session or one persona's thread",
    responses=problems(404),
)
async def delete_conversation(
    session_id: SessionIdPath, scope: CallerScope, engine: EngineDep, persona_id: PersonaIdQuery = None
) -> Json[Deleted]:
    """Delete one persona's thread, or the whole session, with the traces; an absent session is 404."""
    if persona_id is not None:
        await engine.memory.sessions.delete_thread(scope, session_id, persona_id)
    elif not await engine.memory.sessions.delete(scope, session_id):
        raise SessionNotFound(session_id)
    return Json(Deleted(success=True, session_id=session_id))


@router.put(
    "/sessions/{session_id}/preference",
    summary="Set preferences",
    responses=problems(404, 413),
)
async def set_preference(  # noqa: PLR0917 — FastAPI passes them by keyword
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: EngineDep,
    body: Annotated[PreferenceBody | None, Body()] = None,
    verbosity: Annotated[str | None, Query(description="`brief`, `normal` or `detailed`.")] = None,
    tone: Annotated[str | None, Query(description="`casual`, `formal` or `respectful`.")] = None,
    language: Annotated[str | None, Query(description="A BCP 47 tag.")] = None,
    interest_tag: Annotated[list[Tag], Query(description="Tags to add.")] = [],  # noqa: B006 — FastAPI copies it
    remove_interest_tag: Annotated[list[Tag], Query(description="Tags to remove.")] = [],  # noqa: B006
) -> Json[PreferenceAnswer]:
    """By query parameters or a JSON body, not both; they apply to all personas. Returns the stored preferences."""
    by_query = PreferenceChange(
        verbosity=verbosity,
        tone=tone,
        language=language,
        add_interest_tags=tuple(interest_tag),
        remove_interest_tags=tuple(remove_interest_tag),
    )
    if body is not None and by_query != PreferenceChange():
        raise InvalidInput("body", body, "allowed together with query parameters: use one of the two")
    change = by_query if body is None else PreferenceChange(**body.model_dump())
    await engine.memory.sessions.get(scope, session_id)
    stored = await engine.memory.preferences.set(scope, session_id, change)
    return Json(PreferenceAnswer(success=True, preference=preference_view(stored)))


@router.get("/traces", summary="List traces", responses=problems())
async def list_traces(  # noqa: PLR0917 — FastAPI passes them by keyword
    scope: CallerScope,
    engine: EngineDep,
    session_id: Annotated[str | None, Query(pattern=ID_PATTERN, description="Only traces of this session.")] = None,
    persona_id: Annotated[
        str | None, Query(alias="npc_id", pattern=ID_PATTERN, description="Only traces of this persona.")
    ] = None,
    policy_mode: Annotated[PolicyMode | None, Query(description="Only turns with this policy mode.")] = None,
    intent: Annotated[DialogueAct | None, Query(description="Only questions with this intent.")] = None,
    degraded: Annotated[bool | None, Query(description="Only degraded turns, or only the others.")] = None,
    min_latency_ms: Annotated[float, Query(ge=0, le=1e9, description="Only turns that took at least so long.")] = 0,
    limit: PageLimit = 20,
    cursor: CursorQuery = None,
) -> Json[TracePage]:
    """The user's traces, newest first, without the prompt blocks.

    With `degraded` or `min_latency_ms`, `limit` traces are examined: a page may have fewer and still a `next`.
    """
    filters = {"session_id": session_id, "npc_id": persona_id, "policy_mode": policy_mode, "intent": intent}
    where = {field: str(value) for field, value in filters.items() if value is not None}
    page = await engine.traces.list(scope, where=where, limit=limit, cursor=cursor)
    records = [each.record for each in page.items]
    summaries = [
        trace_summary(record)
        for record in records
        if degraded in (None, bool(record.degraded)) and record.latency_ms >= min_latency_ms
    ]
    return Json(TracePage(traces=summaries, next=page.next_cursor))


@router.get(
    "/traces/{trace_id}",
    summary="Read a trace",
    responses=problems(404),
)
async def read_trace(
    trace_id: TraceIdPath,
    scope: CallerScope,
    engine: EngineDep,
    include_session: Annotated[bool, Query(description="Include session and summary.")] = False,  # noqa: FBT002
) -> Json[TraceWithSession]:
    """Why a turn was answered as it was: steps, evidence, prompt blocks, policy mode and reason."""
    stored = await engine.traces.get(scope, trace_id)
    record, user_id = stored.record, stored.user_id
    if not include_session:
        return Json(trace_with_session(record, user_id))
    session = await _summary_or_none(engine, scope, record.session_id)
    summary = await engine.memory.summaries.get(
        scope, ThreadKey(record.session_id, record.persona_id, record.incarnation)
    )
    thread = None if summary is None else thread_summary_view(record.persona_id, summary)
    return Json(trace_with_session(record, user_id, session, thread))


@router.get("/models", summary="List models for replays", responses=problems(), dependencies=[Depends(get_scope)])
async def list_models(engine: EngineDep) -> Json[ReplayModels]:
    """The model that answers, if there is one, and those of the setting `replay_models`."""
    return Json(ReplayModels(models=engine.chat.replay_models))


@router.post(
    "/traces/{trace_id}/replay",
    summary="Replay a trace",
    responses=problems(404, 413, 429, 502),
)
async def replay_trace(
    trace_id: TraceIdPath,
    headers: ScopeHeadersDep,
    app_state: AppStateDep,
    body: Annotated[ReplayBody | None, Body()] = None,
) -> Json[ReplayView]:
    """Send the same blocks to the same model, or to another one, or with another system prompt; returns both answers.

    The transcript is not changed. A model's replayed answer is not verified. Another system prompt needs the right
    `admin`, as its text is in the response.
    """
    wanted, scope = body or ReplayBody(), headers.scope()
    if wanted.prompt_version is not None and headers.principal is not None:
        headers.principal.require("admin")

    async def run(turn: TurnTask[Replay]) -> Replay:
        turn.mark_started()
        return await app_state.engine.chat.replay(
            scope, trace_id, model=wanted.model, prompt_version=wanted.prompt_version
        )

    replay = await app_state.turns.start(run).answer()
    original, replayed = (trace_view(each, scope.user_id) for each in (replay.original, replay.replayed))
    return Json(ReplayView(original=original, replayed=replayed))


async def _summary_or_none(engine: Engine, scope: Scope, session_id: str) -> SummaryView | None:
    try:
        return summary_view(await engine.memory.history.overview(scope, session_id))
    except SessionNotFound:
        return None
