"""System prompts of personas, by version, per tenant and site."""

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from wenmai.chat.registry import VersionedRegistry
from wenmai.http.media_types import JsonRoute
from wenmai.http.openapi import problems
from wenmai.http.parts import TheEngine, engine_of
from wenmai.http.reply import reply
from wenmai.http.scope import CallerScope
from wenmai.http.shapes.registry import PromptBody, VersionShown
from wenmai.http.versions import add_version_routes

router = APIRouter(prefix="/api/v1/prompts", tags=["prompts"], route_class=JsonRoute)


async def _registry(request: Request) -> VersionedRegistry[Any]:
    return (await engine_of(request)).prompts


@router.post(
    "",
    summary="Create the next version of a prompt",
    status_code=201,
    response_model=VersionShown,
    responses=problems(413),
)
async def create_prompt(body: PromptBody, scope: CallerScope, engine: TheEngine) -> Response:
    """The first one of a persona is active at once; later ones when they are activated."""
    value = {"text": body.text, "language": body.language}
    created = await engine.prompts.create(scope, body.npc_id, value, author=body.author, note=body.note)
    return reply(created, 201)


add_version_routes(router, "prompt", _registry)
