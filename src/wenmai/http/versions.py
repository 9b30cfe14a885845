"""The routes that personas and prompts have in common: versions, of which exactly one is active."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from wenmai.chat.registry import VersionedRegistry
from wenmai.errors import NotFound
from wenmai.http.openapi import problems
from wenmai.http.reply import reply
from wenmai.http.scope import CallerScope
from wenmai.http.shapes.common import LARGEST_NUMBER, CursorQuery, NpcIdPath, PageLimit
from wenmai.http.shapes.registry import ActivationBody, ActivationShown, VersionPage, Versions, VersionShown

NumberPath = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="The version's number.")]
RegistryOf = Callable[[Request], Awaitable[VersionedRegistry[Any]]]


def add_version_routes(router: APIRouter, what: str, registry_of: RegistryOf) -> None:
    """Add list, read, activate and delete to the router.

    Args:
        router: of the resource, with its prefix.
        what: ``persona`` or ``prompt``, for the summaries.
        registry_of: a dependency that gives the registry.
    """
    _add_reading(router, what, registry_of)
    _add_changing(router, what, registry_of)


def _add_reading(router: APIRouter, what: str, registry_of: RegistryOf) -> None:
    @router.get("", summary=f"List {what}s", response_model=Versions, responses=problems())
    async def list_active(
        scope: CallerScope, registry: Annotated[VersionedRegistry[Any], Depends(registry_of)]
    ) -> Response:
        """The active version of each, by persona."""
        return reply({"versions": await registry.all_active(scope)})

    @router.get("/{npc_id}", summary=f"The active {what}", response_model=VersionShown, responses=problems(404))
    async def read_active(
        npc_id: NpcIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(registry_of)],
    ) -> Response:
        """The version in force."""
        active = await registry.active(scope, npc_id)
        if active is None:
            raise NotFound(npc_id)
        return reply(active)

    @router.get(
        "/{npc_id}/versions",
        summary=f"Versions of a {what}",
        response_model=VersionPage,
        responses=problems(404),
    )
    async def list_versions(
        npc_id: NpcIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(registry_of)],
        limit: PageLimit = 20,
        cursor: CursorQuery = None,
    ) -> Response:
        """Newest first."""
        versions, following = await registry.versions(scope, npc_id, limit=limit, cursor=cursor)
        if not versions and cursor is None:
            raise NotFound(npc_id)
        return reply({"versions": versions, "next": following})

    @router.get(
        "/{npc_id}/versions/{number}",
        summary=f"One version of a {what}",
        response_model=VersionShown,
        responses=problems(404),
    )
    async def read_version(
        npc_id: NpcIdPath,
        number: NumberPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(registry_of)],
    ) -> Response:
        """Active or not."""
        return reply(await registry.get(scope, npc_id, number))


def _add_changing(router: APIRouter, what: str, registry_of: RegistryOf) -> None:
    @router.post(
        "/{npc_id}/set-active",
        summary=f"Activate a version of a {what}",
        response_model=ActivationShown,
        responses=problems(404, 409, 413),
    )
    async def set_active(
        npc_id: NpcIdPath,
        body: ActivationBody,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(registry_of)],
    ) -> Response:
        """The next turn uses it. With `expected`, only if that version is the active one."""
        return reply(await registry.set_active(scope, npc_id, body.number, expected=body.expected))

    @router.delete(
        "/{npc_id}/versions/{number}",
        summary=f"Delete a version of a {what}",
        status_code=204,
        responses=problems(404, 409),
    )
    async def delete_version(
        npc_id: NpcIdPath,
        number: NumberPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(registry_of)],
    ) -> Response:
        """Not the active one, nor what the profile brings; its number is not given again."""
        await registry.delete(scope, npc_id, number)
        return Response(status_code=204)
