"""The threads of all users of a site."""

from typing import Annotated

from fastapi import APIRouter, Query

from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import CursorQuery, PersonaIdQuery, Timestamp
from wenmai.http.scope import ScopeHeadersDep
from wenmai.memory.thread_listing import ThreadPage

router: APIRouter = resource_router("/v1/threads", tag="threads", route_class=StructRoute)

SessionsLimit = Annotated[int, Query(ge=1, le=500, description="Maximum number of sessions to examine.")]
SinceQuery = Annotated[Timestamp | None, Query(description="Only sessions that were active after this time.")]

TitleQuery = Annotated[str, Query(max_length=60, description="Only sessions whose title contains it.")]


@router.get("", summary="List threads of all users", responses=problems(404))
async def list_threads(
    headers: ScopeHeadersDep,
    engine: EngineDep,
    persona_id: PersonaIdQuery = None,
    since: SinceQuery = None,
    title: TitleQuery = "",
    limit: SessionsLimit = 100,
    cursor: CursorQuery = None,
) -> Json[ThreadPage]:
    """The threads of the site, in no particular order, with user and title; of one user with `X-User-ID`.

    A page examines at most `limit` sessions of the store, so it may have fewer threads, or none, and still a `next`.
    """
    only = headers.user_id or (headers.principal.user_id if headers.principal else "")
    page = await engine.memory.threads.page(
        headers.scope(), user_id=only, persona_id=persona_id, since=since, title=title, limit=limit, cursor=cursor
    )
    return Json(page)
