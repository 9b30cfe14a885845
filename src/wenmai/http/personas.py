"""Who answers, by version, per tenant and site."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from wenmai.chat.registry import VersionedRegistry
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.parts import TheEngine, engine_of
from wenmai.http.reply import reply
from wenmai.http.scope import CallerScope
from wenmai.http.shapes.registry import PersonaBody, VersionShown
from wenmai.http.versions import add_version_routes

router = APIRouter(prefix="/api/v1/personas", tags=["personas"], route_class=JsonRoute)


async def _registry(request: Request) -> VersionedRegistry[Any]:
    return (await engine_of(request)).personas


@router.post(
    "",
    summary="Create a persona, or its next version",
    status_code=201,
    response_model=VersionShown,
    responses=problems(413),
)
async def create_persona(body: PersonaBody, scope: CallerScope, engine: TheEngine) -> Response:
    """The first version of a new persona is active at once; later ones when they are activated."""
    created = await engine.personas.create(scope, body.npc_id, body.persona, author=body.author, note=body.note)
    return reply(created, 201)


add_version_routes(router, "persona", _registry)
