"""Versioned personas, per tenant and site."""

from typing import Any

from fastapi import APIRouter, Request

from wenmai.chat.versioning import Version, VersionedRegistry
from wenmai.http.dependencies import EngineDep, get_engine
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.routes.versions import add_version_routes
from wenmai.http.routing import resource_router
from wenmai.http.schemas.registry import PersonaBody
from wenmai.http.scope import CallerScope

router: APIRouter = resource_router("/api/v1/personas", tag="personas", route_class=JsonRoute)


async def _registry(request: Request) -> VersionedRegistry[Any]:
    return (await get_engine(request)).personas


@router.post(
    "",
    summary="Create a persona or its next version",
    status_code=201,
    responses=problems(413),
)
async def create_persona(body: PersonaBody, scope: CallerScope, engine: EngineDep) -> Json[Version]:
    """The first version of a persona is activated at once; later versions must be activated."""
    created = await engine.personas.create(scope, body.persona_id, body.persona, author=body.author, note=body.note)
    return Json(created, 201)


add_version_routes(router, "persona", _registry)
