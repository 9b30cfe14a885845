"""Questions that name no persona, and the history of their sessions; the profile says who answers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from wenmai.chat.turn import OnEvent, TurnRequest
from wenmai.engine import Engine
from wenmai.errors import SessionNotFound
from wenmai.http import stream
from wenmai.http.dependencies import AppStateDep, EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import ID_PATTERN, CursorQuery, PageLimit
from wenmai.http.schemas.npc import ROLE_LIMIT
from wenmai.http.schemas.queries import USER_ID, QueryBody, SessionDeleteBody
from wenmai.http.scope import (
    SCOPE_NAME_PATTERN,
    IdempotencyKeyHeader,
    ScopeHeaders,
    ScopeHeadersDep,
    TraceHeader,
    get_scope,
)
from wenmai.http.turn_requests import Ask, run_turn, stream_turn
from wenmai.http.views.queries import (
    AssistantView,
    ConversationHistory,
    QueryView,
    QuickQuestions,
    SessionList,
    assistant_view,
    history_view,
    query_event,
    query_view,
    session_record,
)
from wenmai.http.views.sessions import Deleted
from wenmai.scope import Scope

router: APIRouter = resource_router("/api", tag="queries", route_class=JsonRoute)

UserIdQuery = Annotated[str | None, Query(pattern=SCOPE_NAME_PATTERN, description=USER_ID)]
SessionIdQuery = Annotated[str, Query(pattern=ID_PATTERN, description="The session's id.")]
TurnsLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of turns.")]
RoleQuery = Annotated[
    str | None, Query(min_length=1, max_length=ROLE_LIMIT, description="One of the profile's roles; default: none.")
]
LanguageQuery = Annotated[
    str | None, Query(pattern=r"^[A-Za-z]{2,3}(-[A-Za-z0-9]{2,8})*$", description="A BCP 47 tag.")
]

_ANSWER_EXAMPLE = {
    "success": True,
    "answer": "资料中写明：押品创建在「押品管理」菜单中进行。",
    "notice": "",
    "session_id": "sess_10000_1767621600_ab12",
    "turn_id": 1,
    "trace_id": "trace-5f0c2f7a9b1e4d33",
    "policy_mode": "normal",
    "rewritten_query": "押品怎么创建？",
    "intent": "system_query",
    "active_domain": ["system"],
    "business_object": "押品",
    "operation_stage": "创建",
    "citations": [
        {
            "evidence_id": "ev-0f3a",
            "title": "押品操作手册 · 创建",
            "source_ref": "system_collateral.md",
            "excerpt": "押品创建在「押品管理」菜单中进行。",
            "score": 0.82,
        }
    ],
    "followup_questions": ["押品怎么入库？"],
    "degraded": [],
}

_STREAM_EXAMPLE = """\
event: start
data: {"trace_id":"trace-5f0c2f7a9b1e4d33","session_id":"sess_10000_1767621600_ab12","turn_id":1,"npc_id":"assistant"}

event: metadata
data: {"rewritten_query":"押品怎么创建？","intent":"system_query",\
"active_domain":["system"],"business_object":"押品","operation_stage":"创建"}

event: chunk
data: {"text":"押品创建在「押品管理」菜单中进行。"}

event: done
data: {"success":true,"answer":"押品创建在「押品管理」菜单中进行。",\
"session_id":"sess_10000_1767621600_ab12","turn_id":1}
"""


@router.post(
    "/query",
    summary="Ask a question",
    responses=problems(404, 409, 413) | {200: {"content": {"application/json": {"example": _ANSWER_EXAMPLE}}}},
)
async def query(
    body: QueryBody,
    headers: ScopeHeadersDep,
    app_state: AppStateDep,
    connection: Request,
    trace_id: TraceHeader = None,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Json[QueryView] | Response:
    """One turn with the persona of the profile, and how the question was understood.

    If the session has ended, the answer belongs to a new one and has a `notice`.
    """
    request = _request(app_state.engine, body, headers, trace_id, idempotency_key)
    return await run_turn(app_state, request, connection.receive, _asking(app_state.engine))


@router.post(
    "/query/stream",
    summary="Ask a question, answered as a stream",
    response_class=Response,
    responses=problems(404, 409, 413)
    | {
        200: {
            "description": "A stream of the events `start`, `metadata`, `chunk`, `done`, `error`",
            "content": {stream.MEDIA_TYPE: {"schema": {"type": "string"}, "example": _STREAM_EXAMPLE}},
        }
    },
)
async def query_stream(
    body: QueryBody,
    headers: ScopeHeadersDep,
    app_state: AppStateDep,
    connection: Request,
    trace_id: TraceHeader = None,
    idempotency_key: IdempotencyKeyHeader = None,
) -> Response:
    """The same as server-sent events; `done` has the whole answer."""
    request = _request(app_state.engine, body, headers, trace_id, idempotency_key)
    return await stream_turn(app_state, request, connection.receive, _asking(app_state.engine), query_event)


@router.get("/session-list", summary="List the user's sessions", responses=problems())
async def session_list(
    headers: ScopeHeadersDep,
    engine: EngineDep,
    user_id: UserIdQuery = None,
    limit: PageLimit = 50,
    cursor: CursorQuery = None,
) -> Json[SessionList]:
    """Newest first, including expired ones."""
    page = await engine.memory.sessions.list(_scope(engine, headers, user_id), limit=limit, cursor=cursor)
    return Json(SessionList(sessions=[session_record(stored) for stored in page.items], next=page.next_cursor))


@router.get("/conversation-history", summary="Read the newest turns of a session", responses=problems(404))
async def conversation_history(
    session_id: SessionIdQuery,
    headers: ScopeHeadersDep,
    engine: EngineDep,
    user_id: UserIdQuery = None,
    limit: TurnsLimit = 50,
) -> Json[ConversationHistory]:
    """The newest `limit` turns with the persona of the profile, oldest first."""
    scope = _scope(engine, headers, user_id)
    session = (await engine.memory.sessions.get(scope, session_id)).record
    thread = session.thread(engine.queries.rules.persona)
    return Json(history_view(session, await engine.memory.history.latest_turns(scope, thread, limit)))


@router.post("/session-delete", summary="Delete a session", responses=problems(404, 413))
async def session_delete(body: SessionDeleteBody, headers: ScopeHeadersDep, engine: EngineDep) -> Json[Deleted]:
    """Delete a session with all its messages, traces and business state; an absent session is 404."""
    if not await engine.memory.sessions.delete(_scope(engine, headers, body.user_id), body.session_id):
        raise SessionNotFound(body.session_id)
    return Json(Deleted(success=True, session_id=body.session_id))


@router.get("/quick-questions", summary="List questions to begin with", responses=problems(404))
async def quick_questions(
    headers: ScopeHeadersDep, engine: EngineDep, role: RoleQuery = None, language: LanguageQuery = None
) -> Json[QuickQuestions]:
    """The questions for a role, of those that are answered from the evidence; an unknown role is 422."""
    questions = await engine.queries.quick_questions(_scope(engine, headers, None), role, language)
    return Json(QuickQuestions(role=role, roles=[*engine.queries.rules.roles], questions=questions))


@router.get("/assistant", summary="Describe the assistant", responses=problems(), dependencies=[Depends(get_scope)])
async def assistant(engine: EngineDep) -> Json[AssistantView]:
    """Who answers questions that name no persona, its roles, and the objects and stages of the business rules."""
    return Json(assistant_view(engine.queries.rules, engine.memory.states.rules))


def _asking(engine: Engine) -> Ask[QueryView]:
    async def ask(request: TurnRequest, *, on_event: OnEvent | None = None) -> QueryView:
        return query_view(await engine.queries.ask(request, on_event=on_event))

    return ask


def _scope(engine: Engine, headers: ScopeHeaders, user_id: str | None) -> Scope:
    """The scope of headers and user; without either, the key's user, or else the profile's default user."""
    bound = headers.user_id or (headers.principal and headers.principal.user_id)
    user_id = user_id or (None if bound else engine.queries.rules.user_id)
    return headers.scope_with(ScopeHeaders(None, None, user_id))


def _request(
    engine: Engine, body: QueryBody, headers: ScopeHeaders, trace_id: str | None, idempotency_key: str | None
) -> TurnRequest:
    return TurnRequest(
        scope=_scope(engine, headers, body.user_id),
        persona_id=engine.queries.rules.persona,
        query=body.question,
        session_id=body.session_id,
        role=body.role,
        trace_id=trace_id,
        idempotency_key=idempotency_key,
    )
