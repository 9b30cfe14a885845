"""What model calls have used, and what is left of the budgets."""

from datetime import date
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import AfterValidator
from starlette.responses import Response

from wenmai.errors import InvalidInput
from wenmai.http.openapi import problems
from wenmai.http.parts import TheEngine
from wenmai.http.reply import reply
from wenmai.http.scope import CallerScope
from wenmai.http.shapes.common import ID_PATTERN
from wenmai.http.shapes.usage import UsageShown
from wenmai.memory.usage import Spent

router = APIRouter(prefix="/v1/usage", tags=["usage"])

MOST_DAYS = 92


def _is_a_day(text: str) -> str:
    try:
        date.fromisoformat(text)
    except ValueError as problem:
        raise ValueError("a day of the calendar, such as 2026-01-05") from problem
    return text


_DAY = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
Day = Annotated[str, AfterValidator(_is_a_day)]
FromQuery = Annotated[
    Day | None, Query(alias="from", pattern=_DAY, description="The first day, UTC; `to` if left out.")
]
ToQuery = Annotated[Day | None, Query(pattern=_DAY, description="The last day, UTC; today if left out.")]
SessionQuery = Annotated[
    str | None, Query(pattern=ID_PATTERN, description="Tell what this session has used, and of its budget.")
]


@router.get("", summary="Tokens and cost", response_model=UsageShown, responses=problems(404))
async def usage(
    scope: CallerScope,
    engine: TheEngine,
    from_: FromQuery = None,
    to: ToQuery = None,
    session_id: SessionQuery = None,
) -> Response:
    """Of the user, and the sums of the tenant, by day; at most 92 days."""
    last = date.fromisoformat(to) if to else engine.clock().date()
    first = date.fromisoformat(from_) if from_ else last
    if not 0 <= (last - first).days < MOST_DAYS:
        allowed = f"a day up to {last} and not more than {MOST_DAYS - 1} days before it"
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
    return reply(
        {
            "from": first,
            "to": last,
            "user": sum((day.user for day in days), Spent()),
            "tenant": sum((day.tenant for day in days), Spent()),
            "days": days,
            "session": session,
            "budgets": await engine.budgets.standings(scope, session_id),
        }
    )
