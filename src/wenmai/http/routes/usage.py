"""Token usage and cost of model calls, and budget status."""

from datetime import date
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Query
from msgspec import Meta
from pydantic import AfterValidator, StringConstraints

from wenmai.errors import InvalidInput
from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import Json, StructRoute
from wenmai.http.routing import resource_router
from wenmai.http.schemas.common import ID_PATTERN
from wenmai.http.scope import CallerScope
from wenmai.http.views import view_of
from wenmai.memory.usage import DayUsage, PersonaUsage
from wenmai.stores.records import BudgetStatus, TokenUsage

router: APIRouter = resource_router("/v1/usage", tag="usage", route_class=StructRoute)

MAX_DAYS = 92

_USER: dict[str, Any] = {"calls": 2, "prompt_tokens": 840, "completion_tokens": 95, "cost_usd": 0.0004}
_TENANT: dict[str, Any] = {"calls": 41, "prompt_tokens": 17220, "completion_tokens": 1930, "cost_usd": 0.0082}
_EXAMPLE = {
    "from": "2026-01-05",
    "to": "2026-01-05",
    "user": _USER,
    "tenant": _TENANT,
    "days": [{"day": "2026-01-05", "user": _USER, "tenant": _TENANT}],
    "personas": [{"npc_id": "village_elder", "days": [_USER]}],
    "session": {"session_id": "my-session", "total_tokens_used": 935, "total_cost_usd": 0.0004},
    "budgets": [
        {
            "of": "user_day",
            "measure": "tokens",
            "limit": 1000,
            "used": 935,
            "share": 0.935,
            "hard": True,
            "state": "warning",
        }
    ],
}


class SessionUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Usage of a session over its lifetime."""

    session_id: Annotated[str, Meta(description="The session's id.")]
    total_tokens_used: Annotated[int, Meta(description="Tokens of all model calls.")]
    total_cost_usd: Annotated[
        float, Meta(description="Cost of all model calls in US dollars, for models with a configured price.")
    ]


class UsageView(msgspec.Struct, frozen=True, kw_only=True, rename={"from_": "from"}):
    """Usage of the user and of the tenant, per day."""

    from_: Annotated[date, Meta(description="The first day, UTC.")]
    to: Annotated[date, Meta(description="The last day, UTC.")]
    user: Annotated[TokenUsage, Meta(description="Usage of the user.")]
    tenant: Annotated[TokenUsage, Meta(description="Usage of all users of the tenant.")]
    days: Annotated[list[DayUsage], Meta(description="Every day from `from` to `to`, both included.")]
    personas: Annotated[list[PersonaUsage], Meta(description="Usage of the personas of `npc_id`, in their order.")]
    session: Annotated[SessionUsage | None, Meta(description="Usage of the session, with `session_id`.")]
    budgets: Annotated[
        list[BudgetStatus], Meta(description="The configured budgets; that of the session with `session_id`.")
    ]


def _validated_day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError as problem:
        raise ValueError("a calendar date, such as 2026-01-05") from problem
    return text


_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
Day = Annotated[str, AfterValidator(_validated_day)]
FromQuery = Annotated[Day | None, Query(alias="from", pattern=_DAY, description="The first day, UTC; default: `to`.")]
ToQuery = Annotated[Day | None, Query(pattern=_DAY, description="The last day, UTC; default: today.")]
SessionQuery = Annotated[
    str | None, Query(pattern=ID_PATTERN, description="Include the usage and budget of this session.")
]

PersonasQuery = Annotated[
    list[Annotated[str, StringConstraints(pattern=ID_PATTERN)]],
    Query(alias="npc_id", max_length=20, description="Include the usage of these personas by all users of the site."),
]


@router.get(
    "",
    summary="Tokens and cost",
    responses=problems(404) | {200: {"content": {"application/json": {"example": _EXAMPLE}}}},
)
async def usage(
    scope: CallerScope,
    engine: EngineDep,
    from_: FromQuery = None,
    to: ToQuery = None,
    session_id: SessionQuery = None,
    persona_ids: PersonasQuery = [],  # noqa: B006 — FastAPI copies it
) -> Json[UsageView]:
    """Usage of the user and of the tenant, per day; at most 92 days."""
    last = date.fromisoformat(to) if to else engine.clock().date()
    first = date.fromisoformat(from_) if from_ else last
    if not 0 <= (last - first).days < MAX_DAYS:
        allowed = f"a day from {MAX_DAYS - 1} days before {last} to {last}"
        raise InvalidInput("from", str(first), allowed)
    session = None
    if session_id is not None:
        record = (await engine.memory.sessions.get(scope, session_id)).record
        session = view_of(record, SessionUsage)
    days = await engine.memory.usage.totals(scope, first, last)
    return Json(
        UsageView(
            from_=first,
            to=last,
            user=sum((day.user for day in days), TokenUsage()),
            tenant=sum((day.tenant for day in days), TokenUsage()),
            days=days,
            personas=await engine.memory.usage.of_personas(scope, persona_ids, first, last),
            session=session,
            budgets=await engine.budgets.statuses(scope, session_id),
        )
    )
