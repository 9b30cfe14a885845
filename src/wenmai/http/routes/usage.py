"""Token usage and cost of model calls, and budget status."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator
from starlette.responses import Response

from wenmai.errors import InvalidInput
from wenmai.http.dependencies import EngineDep
from wenmai.http.openapi import problems
from wenmai.http.responses import json_response
from wenmai.http.schemas.common import ID_PATTERN
from wenmai.http.schemas.usage import UsageView
from wenmai.http.scope import CallerScope
from wenmai.stores.records import TokenUsage

router = APIRouter(prefix="/v1/usage", tags=["usage"])

MAX_DAYS = 92


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


@router.get("", summary="Tokens and cost", response_model=UsageView, responses=problems(404))
async def usage(
    scope: CallerScope,
    engine: EngineDep,
    from_: FromQuery = None,
    to: ToQuery = None,
    session_id: SessionQuery = None,
) -> Response:
    """Usage of the user and of the tenant, per day; at most 92 days."""
    last = date.fromisoformat(to) if to else engine.clock().date()
    first = date.fromisoformat(from_) if from_ else last
    if not 0 <= (last - first).days < MAX_DAYS:
        allowed = f"a day from {MAX_DAYS - 1} days before {last} to {last}"
        raise InvalidInput("from", str(first), allowed)
    session = None
    if session_id is not None:
        record = (await engine.memory.sessions.get(scope, session_id)).record
        session = {
            "session_id": session_id,
            "total_tokens_used": record.total_tokens_used,
            "total_cost_usd": record.total_cost_usd,
        }
    days = await engine.memory.usage.totals(scope, first, last)
    return json_response(
        {
            "from": first,
            "to": last,
            "user": sum((day.user for day in days), TokenUsage()),
            "tenant": sum((day.tenant for day in days), TokenUsage()),
            "days": days,
            "session": session,
            "budgets": await engine.budgets.statuses(scope, session_id),
        }
    )
