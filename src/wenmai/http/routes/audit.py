"""The audit log of administrative acts."""

from typing import Annotated

import msgspec
from fastapi import APIRouter, Query
from msgspec import Meta

from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import MAX_SAFE_INTEGER
from wenmai.http.scope import CallerScope
from wenmai.memory.audit import AuditStatus
from wenmai.stores.records import AuditEntry

router: APIRouter = resource_router("/v1/audit", tag="audit", route_class=StructRoute)

EntriesLimit = Annotated[int, Query(ge=1, le=200, description="Maximum number of entries.")]
BeforeNumber = Annotated[int | None, Query(ge=1, le=MAX_SAFE_INTEGER, description="Only entries before this number.")]


class AuditEntries(msgspec.Struct, frozen=True, kw_only=True):
    """Entries of the audit log."""

    entries: Annotated[list[AuditEntry], Meta(description="The entries, newest first.")]


@router.get("", summary="Read the audit log", responses=problems(404))
async def audit(
    scope: CallerScope, engine: EngineDep, limit: EntriesLimit = 50, before: BeforeNumber = None
) -> Json[AuditEntries]:
    """The administrative acts in the tenant, newest first: keys, erasures, activations, corrections of states.

    Each entry has the digest of the one before; `wenmai audit --verify` checks the chain.
    """
    return Json(AuditEntries(entries=await engine.memory.audit.entries(scope.tenant_id, limit=limit, before=before)))


@router.get("/status", summary="Verify the audit log", responses=problems(404))
async def audit_status(scope: CallerScope, engine: EngineDep) -> Json[AuditStatus]:
    """Check the digests of all entries of the tenant, as `wenmai audit --verify` does."""
    return Json(await engine.memory.audit.verify(scope.tenant_id))
