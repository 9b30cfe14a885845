"""The routes shared by personas and prompts: versions, exactly one of which is active."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from wenmai.chat.versioning import VersionedRegistry
from wenmai.errors import NotFound
from wenmai.http.openapi import problems
from wenmai.http.responses import json_response
from wenmai.http.schemas.common import MAX_SAFE_INTEGER, CursorQuery, NpcIdPath, PageLimit
from wenmai.http.schemas.registry import ActivationBody, ActivationView, ActiveVersions, VersionPage, VersionView
from wenmai.http.scope import CallerScope

NumberPath = Annotated[int, Path(ge=1, le=MAX_SAFE_INTEGER, description="The version's number.")]
RegistryDependency = Callable[[Request], Awaitable[VersionedRegistry[Any]]]


def add_version_routes(router: APIRouter, what: str, get_registry: RegistryDependency) -> None:
    """Add the list, read, activate and delete routes.

    Args:
        router: the resource's router, with its prefix.
        what: ``persona`` or ``prompt``, for the summaries.
        get_registry: dependency that returns the registry.
    """
    _add_read_routes(router, what, get_registry)
    _add_write_routes(router, what, get_registry)


def _add_read_routes(router: APIRouter, what: str, get_registry: RegistryDependency) -> None:
    @router.get("", summary=f"List {what}s", response_model=ActiveVersions, responses=problems())
    async def list_active(
        scope: CallerScope, registry: Annotated[VersionedRegistry[Any], Depends(get_registry)]
    ) -> Response:
        """The active version for each persona."""
        return json_response({"versions": await registry.all_active(scope)})

    @router.get("/{npc_id}", summary=f"The active {what}", response_model=VersionView, responses=problems(404))
    async def read_active(
        npc_id: NpcIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Response:
        """The active version."""
        active = await registry.active(scope, npc_id)
        if active is None:
            raise NotFound(npc_id)
        return json_response(active)

    @router.get(
        "/{npc_id}/versions",
        summary=f"Versions of a {what}",
        response_model=VersionPage,
        responses=problems(404),
    )
    async def list_versions(
        npc_id: NpcIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
        limit: PageLimit = 20,
        cursor: CursorQuery = None,
    ) -> Response:
        """All versions, newest first."""
        versions, next_cursor = await registry.versions(scope, npc_id, limit=limit, cursor=cursor)
        if not versions and cursor is None:
            raise NotFound(npc_id)
        return json_response({"versions": versions, "next": next_cursor})

    @router.get(
        "/{npc_id}/versions/{number}",
        summary=f"One version of a {what}",
        response_model=VersionView,
        responses=problems(404),
    )
    async def read_version(
        npc_id: NpcIdPath,
        number: NumberPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Response:
        """One version, active or not."""
        return json_response(await registry.get(scope, npc_id, number))


def _add_write_routes(router: APIRouter, what: str, get_registry: RegistryDependency) -> None:
    @router.post(
        "/{npc_id}/set-active",
        summary=f"Activate a version of a {what}",
        response_model=ActivationView,
        responses=problems(404, 409, 413),
    )
    async def set_active(
        npc_id: NpcIdPath,
        body: ActivationBody,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Response:
        """Takes effect with the next turn. With `expected`, only if that version is active (compare-and-set)."""
        return json_response(await registry.set_active(scope, npc_id, body.number, expected=body.expected))

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
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Response:
        """Delete a version that is neither active nor from the profile; its number is not reused."""
        await registry.delete(scope, npc_id, number)
        return Response(status_code=204)
