"""Users: erasure."""

from typing import Annotated

from fastapi import APIRouter, Path

from wenmai.errors import ScopeNotFound
from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.scope import SCOPE_NAME_PATTERN, ScopeHeadersDep
from wenmai.memory.erasure_receipts import ErasureReceipt

router: APIRouter = resource_router("/v1/users", tag="users", route_class=StructRoute)

UserId = Annotated[str, Path(pattern=SCOPE_NAME_PATTERN, description="The user's id.")]


@router.delete("/{user_id}", summary="Erase a user", responses=problems(404, 409))
async def erase_user(user_id: UserId, headers: ScopeHeadersDep, engine: EngineDep) -> Json[ErasureReceipt]:
    """Erase everything that is stored of the user in the site, search for what could be left, and return the receipt.

    Sessions, messages, traces, preferences, business states, summaries, search entries and usage are removed, and what
    a running turn of the user still stores. An erasure that is interrupted continues in the background; a repeated
    request continues it. `X-User-ID` may name the same user; another one is not found.
    """
    if headers.user_id not in (None, user_id):
        raise ScopeNotFound(user_id)
    return Json(await engine.memory.erasures.erase(headers._replace(user_id=user_id).scope()))
