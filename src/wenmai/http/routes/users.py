"""Users: export and erasure."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response
from fastapi.responses import StreamingResponse

from wenmai.errors import ScopeNotFound
from wenmai.http.auditing import AuditorDep
from wenmai.http.dependencies import EngineDep
from wenmai.http.jsonl import JSONL, in_chunks, jsonl_response
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.scope import SCOPE_NAME_PATTERN, ScopeHeaders, ScopeHeadersDep
from wenmai.interchange import export_lines
from wenmai.memory.erasure_receipts import ErasureReceipt
from wenmai.scope import Scope

router: APIRouter = resource_router("/v1/users", tag="users", route_class=StructRoute)

UserId = Annotated[str, Path(pattern=SCOPE_NAME_PATTERN, description="The user's id.")]


@router.get(
    "/{user_id}/export",
    summary="Export a user",
    response_class=StreamingResponse,
    responses=problems(404) | jsonl_response("Everything that an import restores, session by session, oldest first"),
)
async def export_user(
    user_id: UserId,
    headers: ScopeHeadersDep,
    engine: EngineDep,
    traces: Annotated[bool, Query(description="Export the traces too.")] = False,  # noqa: FBT002 — a query parameter
) -> Response:
    """All sessions of the user in the site, in the format of `wenmai import`.

    Sessions with their times, preferences, messages, business states, and on request traces.
    """
    lines = export_lines(engine.memory, _scope(headers, user_id), traces=traces)
    return StreamingResponse(in_chunks(lines), media_type=JSONL)


@router.delete("/{user_id}", summary="Erase a user", responses=problems(404, 409))
async def erase_user(
    user_id: UserId, headers: ScopeHeadersDep, engine: EngineDep, auditor: AuditorDep
) -> Json[ErasureReceipt]:
    """Erase everything that is stored of the user in the site, search for what could be left, and return the receipt.

    Sessions, messages, traces, preferences, business states, summaries, search entries and usage are removed, and what
    a running turn of the user still stores. An erasure that is interrupted continues in the background; a repeated
    request continues it. `X-User-ID` may name the same user; another one is not found.
    """
    return Json(await engine.memory.erasures.erase(_scope(headers, user_id), actor=auditor.actor))


def _scope(headers: ScopeHeaders, user_id: str) -> Scope:
    """The scope of the user that the path names.

    Raises:
        ScopeNotFound: the headers name another user, or it is not the principal's.
    """
    if headers.user_id not in (None, user_id):
        raise ScopeNotFound(user_id)
    return headers._replace(user_id=user_id).scope()
