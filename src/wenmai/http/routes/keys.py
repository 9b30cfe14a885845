"""The API keys of a tenant; they are created and revoked on the command line."""

from datetime import datetime
from typing import Annotated

import msgspec
from fastapi import APIRouter
from msgspec import Meta

from wenmai.auth.principal import Principal
from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import CursorQuery, PageLimit
from wenmai.http.scope import ScopeHeadersDep
from wenmai.http.views import view_of
from wenmai.stores.records import ApiKeyRecord

router: APIRouter = resource_router("/v1/keys", tag="keys", route_class=StructRoute)


class KeyView(msgspec.Struct, frozen=True, kw_only=True):
    """An API key, without anything that it could be proved with."""

    key_id: Annotated[str, Meta(description="The public part of the key.")]
    name: Annotated[str, Meta(description="Its name.")]
    sites: Annotated[list[str], Meta(description="The sites that it is for; empty for all.")]
    user_id: Annotated[str, Meta(description="The user that it is for; empty for all.")]
    rights: Annotated[list[str], Meta(description="What it may do.")]
    rate_limit: Annotated[str, Meta(description="Its own rate limit; empty for that of the setting.")]
    created_at: Annotated[datetime, Meta(description="Creation time.")]
    expires_at: Annotated[datetime | None, Meta(description="Refused from then on; null for never.")]
    revoked_at: Annotated[datetime | None, Meta(description="Refused since then; null if it is not revoked.")]


class KeyPage(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of the tenant, newest first, possibly none; `next` is null on the last page."""

    keys: Annotated[list[KeyView], Meta(description="The keys of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


@router.get("", summary="List API keys", responses=problems(404))
async def list_keys(
    headers: ScopeHeadersDep, engine: EngineDep, limit: PageLimit = 100, cursor: CursorQuery = None
) -> Json[KeyPage]:
    """The API keys of the tenant, newest first, expired and revoked ones too.

    A caller with sites or a user sees the keys that may act there, or for it.

    A page examines at most `limit` keys of the store, so it may have fewer keys, or none, and still a `next`.
    """
    tenant_id = headers.scope().tenant_id
    page = await engine.api_keys.page(limit=limit, cursor=cursor)
    keys = [
        view_of(
            each.record, KeyView, sites=each.record.for_sites, user_id=each.record.for_user, created_at=each.created_at
        )
        for each in page.items
        if each.record.for_tenant == tenant_id and _concerns(each.record, headers.principal)
    ]
    return Json(KeyPage(keys=keys, next=page.next_cursor))


def _concerns(key: ApiKeyRecord, caller: Principal | None) -> bool:
    """Whether the key may act in a site of the caller, and for its user."""
    if caller is None:
        return True
    of_site = not key.for_sites or not caller.sites or not set(key.for_sites).isdisjoint(caller.sites)
    return of_site and (not caller.user_id or key.for_user in ("", caller.user_id))
