"""The plain memory API, for applications with their own model: sessions, messages, context."""

from collections.abc import AsyncIterator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from starlette.responses import Response, StreamingResponse

from wenmai.errors import SessionNotFound
from wenmai.http.dependencies import EngineDep
from wenmai.http.media_types import JsonRoute
from wenmai.http.message_pages import session_page, thread_page
from wenmai.http.openapi import problems
from wenmai.http.responses import json_response
from wenmai.http.schemas.common import CursorQuery, NpcIdQuery, PageLimit, SessionIdPath
from wenmai.http.schemas.npc import Deleted
from wenmai.http.schemas.sessions import (
    ContextAnswer,
    ContextBody,
    MessagePage,
    Messages,
    MessagesBody,
    SessionBody,
    SessionDetail,
    SessionPage,
    SessionRecord,
    TitleBody,
)
from wenmai.http.scope import CallerScope
from wenmai.http.views import PERSONA_VARIABLE, default_persona, session_view
from wenmai.interchange import export_lines
from wenmai.memory.first_question import FirstQuestion
from wenmai.stores.records import Message, Session

router: APIRouter = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=JsonRoute)

BeforeQuery = Annotated[str | None, Query(min_length=1, max_length=16_384, description="`next` of the previous page.")]

CHUNK_BYTES = 32_768

_JSONL = "application/jsonl"


@router.post(
    "",
    summary="Create a session",
    status_code=201,
    response_model=SessionRecord,
    responses=problems(413)
    | {200: {"model": SessionRecord, "description": "The session exists already; nothing was changed"}},
)
async def create_session(body: SessionBody, scope: CallerScope, engine: EngineDep) -> Response:
    """If the id belongs to another scope or an expired session, a new id is generated: see `session_id`."""
    sessions = engine.memory.sessions
    opened = await sessions.open(scope, body.session_id, title=body.title, metadata=body.metadata)
    stored = opened.stored
    if opened.created and body.npc_id is not None:
        variables = {PERSONA_VARIABLE: body.npc_id}

        def with_persona(session: Session) -> Session:
            return msgspec.structs.replace(session, context=session.context | variables)

        stored = await sessions.change(scope, opened.session_id, with_persona)
    return json_response(session_view(scope, stored), 201 if opened.created else 200)


@router.get("", summary="List sessions", response_model=SessionPage, responses=problems())
async def list_sessions(
    scope: CallerScope, engine: EngineDep, limit: PageLimit = 20, cursor: CursorQuery = None
) -> Response:
    """The user's sessions, newest first, including expired ones."""
    page = await engine.memory.sessions.list(scope, limit=limit, cursor=cursor)
    views = [session_view(scope, stored) for stored in page.items]
    return json_response({"sessions": views, "next": page.next_cursor})


@router.get("/{session_id}", summary="Read a session", response_model=SessionDetail, responses=problems(404))
async def read_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Response:
    """The session and its threads."""
    stored = await engine.memory.sessions.get(scope, session_id)
    incarnation = stored.record.incarnation
    threads = await engine.memory.transcript.threads(scope, session_id, incarnation=incarnation)
    return json_response(session_view(scope, stored) | {"threads": threads})


@router.patch(
    "/{session_id}",
    summary="Rename a session",
    response_model=SessionRecord,
    responses=problems(404, 413),
)
async def rename_session(session_id: SessionIdPath, body: TitleBody, scope: CallerScope, engine: EngineDep) -> Response:
    """The title is final: none is generated for the session any more."""
    return json_response(session_view(scope, await engine.memory.sessions.rename(scope, session_id, body.title)))


@router.delete("/{session_id}", summary="Delete a session", response_model=Deleted, responses=problems(404))
async def delete_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Response:
    """Delete a session with all its messages and preferences; an absent session is 404."""
    if not await engine.memory.sessions.delete(scope, session_id):
        raise SessionNotFound(session_id)
    return json_response({"success": True, "session_id": session_id})


@router.post(
    "/{session_id}/messages",
    summary="Append messages",
    status_code=201,
    response_model=Messages,
    responses=problems(404, 413),
)
async def append_messages(
    session_id: SessionIdPath, body: MessagesBody, scope: CallerScope, engine: EngineDep
) -> Response:
    """Durable, in order, and atomic per persona. A message with an existing `id` is not stored again.

    Messages may have the format of OpenAI's chat API. The session's first `user` message becomes its
    `first_question`, and its title unless it has one.

    Threads of several personas are written one after another: provide ids to make retries idempotent.
    """
    session = (await engine.memory.sessions.get(scope, session_id)).record
    prepared = await engine.memory.transcript.prepare([message.provided_fields() for message in body.messages])
    threads: dict[str, list[int]] = {}
    for index, message in enumerate(body.messages):
        threads.setdefault(message.npc_id or default_persona(session), []).append(index)
    stored: dict[int, Message] = {}
    for npc_id, indexes in threads.items():
        thread = session.thread(npc_id)
        appended, _ = await engine.memory.transcript.append(scope, thread, [prepared[index] for index in indexes])
        stored.update(zip(indexes, appended.messages, strict=True))
    messages = [stored[index] for index in range(len(body.messages))]
    await FirstQuestion(engine.memory.sessions, scope, session).record(messages)
    return json_response({"messages": messages}, 201)


@router.get("/{session_id}/messages", summary="List messages", response_model=MessagePage, responses=problems(404))
async def list_messages(
    session_id: SessionIdPath,
    scope: CallerScope,
    engine: EngineDep,
    limit: PageLimit = 50,
    before: BeforeQuery = None,
    npc_id: NpcIdQuery = None,
) -> Response:
    """The newest messages, oldest first; of one persona, or of all merged by time. Includes incomplete answers."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    transcript = engine.memory.transcript
    if npc_id is None:
        messages, older = await session_page(transcript, scope, session, limit, before)
    else:
        messages, older = await thread_page(transcript, scope, session.thread(npc_id), limit, before)
    return json_response({"messages": messages, "next": older})


@router.post(
    "/{session_id}/context",
    summary="Build a context for your model",
    response_model=ContextAnswer,
    responses=problems(404, 413),
)
async def build_context(
    session_id: SessionIdPath, body: ContextBody, scope: CallerScope, engine: EngineDep
) -> Response:
    """Preferences, the newest whole turns that fit the budget, and the question as the last message."""
    session = (await engine.memory.sessions.get(scope, session_id)).record
    thread = session.thread(body.npc_id or default_persona(session))
    return json_response(
        await engine.memory.contexts.build(scope, thread, body.query, budget_tokens=body.budget_tokens)
    )


@router.get(
    "/{session_id}/export",
    summary="Export a session",
    response_class=StreamingResponse,
    responses=problems(404)
    | {
        200: {
            "description": "The session, then one message per line, thread by thread, oldest first",
            "content": {
                _JSONL: {
                    "schema": {"type": "string"},
                    "example": '{"type":"session","session_id":"my-session","title":"Planning the trip"}\n',
                }
            },
        }
    },
)
async def export_session(session_id: SessionIdPath, scope: CallerScope, engine: EngineDep) -> Response:
    """The format of `wenmai import`: the session, then its messages."""
    await engine.memory.sessions.get(scope, session_id)
    return StreamingResponse(_chunks(export_lines(engine.memory, scope, [session_id])), media_type=_JSONL)


async def _chunks(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    chunk = bytearray()
    async for line in lines:
        chunk += line
        if len(chunk) >= CHUNK_BYTES:
            yield bytes(chunk)
            chunk.clear()
    if chunk:
        yield bytes(chunk)
