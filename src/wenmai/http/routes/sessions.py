"""The plain memory API, for applications with their own model: sessions, messages, context."""

from typing import Annotated

from fastapi import APIRouter, Query
from msgspec import UNSET
from starlette.responses import Response, StreamingResponse

from wenmai.errors import SessionNotFound
from wenmai.http.dependencies import EngineDep
from wenmai.http.jsonl import JSONL, in_chunks, jsonl_response
from wenmai.http.markdown import rendered_answers
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import CursorQuery, PageLimit, PersonaIdQuery, SessionIdPath
from wenmai.http.schemas.sessions import ContextBody, MessagesBody, SessionBody, TitleBody
from wenmai.http.scope import CallerScope
from wenmai.http.views import view_of
from wenmai.http.views.sessions import (
    Deleted,
    Messages,
    MessagesView,
    SessionDetail,
    SessionPage,
    SessionView,
    SummaryList,
    session_detail,
    session_view,
    thread_summary_view,
)
from wenmai.interchange import export_lines
from wenmai.memory.context import Context
from wenmai.memory.history import PERSONA_VARIABLE, default_persona

router: APIRouter = resource_router("/v1/sessions", tag="sessions", route_class=JsonRoute)

BeforeQuery = Annotated[str | None, Query(min_length=1, max_length=16_384, description="`next` of the previous page.")]


@router.post(
    "",
    summary="Create a session",
    status_code=201,
    responses=problems(413) | {200: {"description": "The session exists already; nothing was changed"}},
)
async def create_session(body: SessionBody, scope: CallerScope, engine: EngineDep) -> Json[SessionView]:
    """If the id belongs to another scope or an expired session, a new id is generated: see `session_id`."""
    context = {} if body.persona_id is None else {PERSONA_VARIABLE: body.persona_id}
    opened = await engine.memory.sessions.open(
        scope, body.session_id, title=body.title, metadata=body.metadata, context=context
    )
    return Json(session_view(scope, opened.stored), 201 if opened.created else 200)


@router.get("", summary="List sessions", responses=problems())
async def list_sessions(
    scope: CallerScope, engine: EngineDep, limit: PageLimit = 20, cursor: CursorQuery = None
) -> Json[SessionPage]:
    """The user's sessions, newest first, including expired ones."""
    page = await engine.memory.sessions.list(scope, limit=limit, cursor=cursor)
    views = [session_view(scope, stored) for stored in page.items]
    return Json(SessionPage(sessions=views, next=page.next_cursor))


@router.get("/{session_id}", summary="Read a session", responses=problems(404))
async def read_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Json[SessionDetail]:
    """The session and its threads."""
    stored = await engine.memory.sessions.get(scope, session_id)
    incarnation = stored.record.incarnation
    threads = await engine.memory.transcript.threads(scope, session_id, incarnation=incarnation)
    return Json(session_detail(scope, stored, threads))


@router.patch(
    "/{session_id}",
    summary="Rename a session",
    responses=problems(404, 413),
)
async def rename_session(
    session_id: SessionIdPath, body: TitleBody, scope: CallerScope, engine: EngineDep
) -> Json[SessionView]:
    """The title is final: none is generated for the session any more."""
    return Json(session_view(scope, await engine.memory.sessions.rename(scope, session_id, body.title)))


@router.delete("/{session_id}", summary="Delete a session", responses=problems(404))
async def delete_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Json[Deleted]:
    """Delete a session with all its messages and preferences; an absent session is 404."""
    if not await engine.memory.sessions.delete(scope, session_id):
        raise SessionNotFound(session_id)
    return Json(Deleted(success=True, session_id=session_id))


@router.post(
    "/{session_id}/messages",
    summary="Append messages",
    status_code=201,
    responses=problems(404, 413),
)
async def append_messages(
    session_id: SessionIdPath, body: MessagesBody, scope: CallerScope, engine: EngineDep
) -> Json[Messages]:
    """Durable, in order, and atomic per persona. A message with an existing `id` is not stored again.

    Messages may have the format of OpenAI's chat API. The session's first `user` message becomes its
    `first_question`, and its title unless it has one.

    Threads of several personas are written one after another: provide ids to make retries idempotent.
    """
    given = [(message.persona_id, message.provided_fields()) for message in body.messages]
    return Json(Messages(messages=await engine.memory.history.append(scope, session_id, given)), 201)


@router.get("/{session_id}/messages", summary="List messages", responses=problems(404))
async def list_messages(
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: EngineDep,
    limit: PageLimit = 50,
    before: BeforeQuery = None,
    persona_id: PersonaIdQuery = None,
    html: Annotated[bool, Query(description="Also render the Markdown of answers.")] = False,  # noqa: FBT002
) -> Json[MessagesView]:
    """The newest messages, oldest first; of one persona, or of all merged by time. Includes incomplete answers."""
    page = await engine.memory.history.page(scope, session_id, limit, persona_id=persona_id, before=before)
    return Json(view_of(page, MessagesView, html=await rendered_answers(page.messages) if html else UNSET))


@router.post(
    "/{session_id}/context",
    summary="Build a context for your model",
    responses=problems(404, 413),
)
async def build_context(
    session_id: SessionIdPath, body: ContextBody, scope: CallerScope, engine: EngineDep
) -> Json[Context]:
    """Preferences, summary, related earlier turns, the newest whole turns that fit, and last the question.

    `degraded` names what is missing because the store did not answer.
    """
    session = (await engine.memory.sessions.get(scope, session_id)).record
    thread = session.thread(body.persona_id or default_persona(session))
    context = await engine.memory.contexts.build(
        scope, thread, body.query, budget_tokens=body.budget_tokens, related_turns=body.related_turns
    )
    return Json(context)


@router.get("/{session_id}/summaries", summary="Read the summaries", responses=problems(404))
async def list_summaries(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Json[SummaryList]:
    """The rolling summary of each thread that has one."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    threads = await engine.memory.transcript.threads(scope, session_id, incarnation=session.incarnation)
    found = []
    for thread in threads:
        summary = await engine.memory.summaries.get(scope, session.thread(thread.persona_id))
        if summary is not None:
            found.append(thread_summary_view(thread.persona_id, summary))
    return Json(SummaryList(summaries=found))


@router.get(
    "/{session_id}/export",
    summary="Export a session",
    response_class=StreamingResponse,
    responses=problems(404) | jsonl_response("The session, then one message per line, thread by thread, oldest first"),
)
async def export_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Response:
    """The format of `wenmai import`: the session, then its messages."""
    await engine.memory.sessions.get(scope, session_id)
    return StreamingResponse(in_chunks(export_lines(engine.memory, scope, [session_id])), media_type=JSONL)
