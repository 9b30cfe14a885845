"""The routes shared by personas and prompts: versions, exactly one of which is active."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Path, Request
from msgspec import Meta
from starlette.responses import Response

from wenmai.chat.versioning import Activation, Version, VersionedRegistry
from wenmai.errors import NotFound
from wenmai.http.auditing import AuditorDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json
from wenmai.http.schemas.common import MAX_SAFE_INTEGER, CursorQuery, PageLimit, PersonaIdPath
from wenmai.http.schemas.registry import ActivationBody
from wenmai.http.scope import CallerScope

NumberPath = Annotated[int, Path(ge=1, le=MAX_SAFE_INTEGER, description="The version's number.")]
RegistryDependency = Callable[[Request], Awaitable[VersionedRegistry[Any]]]


class ActiveVersions(msgspec.Struct, frozen=True, kw_only=True):
    """The active version of each persona or prompt."""

    versions: Annotated[list[Version], Meta(description="The active version of each.")]


class VersionPage(msgspec.Struct, frozen=True, kw_only=True):
    """Versions, newest first; `next` is null on the last page."""

    versions: Annotated[list[Version], Meta(description="The versions of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


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
    @router.get("", name=f"list_{what}s", summary=f"List {what}s", responses=problems())
    async def list_active(
        scope: CallerScope, registry: Annotated[VersionedRegistry[Any], Depends(get_registry)]
    ) -> Json[ActiveVersions]:
        """The active version for each persona."""
        return Json(ActiveVersions(versions=await registry.all_active(scope)))

    @router.get("/{npc_id}", name=f"read_{what}", summary=f"The active {what}", responses=problems(404))
    async def read_active(
        persona_id: PersonaIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Json[Version]:
        """The active version."""
        active = await registry.active(scope, persona_id)
        if active is None:
            raise NotFound(persona_id)
        return Json(active)

    @router.get(
        "/{npc_id}/versions",
        name=f"list_{what}_versions",
        summary=f"Versions of a {what}",
        responses=problems(404),
    )
    async def list_versions(
        persona_id: PersonaIdPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
        limit: PageLimit = 20,
        cursor: CursorQuery = None,
    ) -> Json[VersionPage]:
        """All versions, newest first."""
        versions, next_cursor = await registry.versions(scope, persona_id, limit=limit, cursor=cursor)
        if not versions and cursor is None:
            raise NotFound(persona_id)
        return Json(VersionPage(versions=versions, next=next_cursor))

    @router.get(
        "/{npc_id}/versions/{number}",
        name=f"read_{what}_version",
        summary=f"One version of a {what}",
        responses=problems(404),
    )
    async def read_version(
        persona_id: PersonaIdPath,
        number: NumberPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
    ) -> Json[Version]:
        """One version, active or not."""
        return Json(await registry.get(scope, persona_id, number))


def _add_write_routes(router: APIRouter, what: str, get_registry: RegistryDependency) -> None:
    @router.post(
        "/{npc_id}/set-active",
        name=f"activate_{what}",
        summary=f"Activate a version of a {what}",
        responses=problems(404, 409, 413),
    )
    async def set_active(
        persona_id: PersonaIdPath,
        body: ActivationBody,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
        auditor: AuditorDep,
    ) -> Json[Activation]:
        """Takes effect with the next turn. With `expected`, only if that version is active (compare-and-set)."""
        activation = await registry.set_active(scope, persona_id, body.number, expected=body.expected)
        await auditor.record(f"{what}_activated", npc_id=persona_id, version=body.number)
        return Json(activation)

    @router.delete(
        "/{npc_id}/versions/{number}",
        name=f"delete_{what}_version",
        summary=f"Delete a version of a {what}",
        status_code=204,
        responses=problems(404, 409),
    )
    async def delete_version(
        persona_id: PersonaIdPath,
        number: NumberPath,
        scope: CallerScope,
        registry: Annotated[VersionedRegistry[Any], Depends(get_registry)],
        auditor: AuditorDep,
    ) -> Response:
        """Delete a version that is neither active nor from the profile; its number is not reused."""
        await registry.delete(scope, persona_id, number)
        await auditor.record(f"{what}_version_deleted", npc_id=persona_id, version=number)
        return Response(status_code=204)
