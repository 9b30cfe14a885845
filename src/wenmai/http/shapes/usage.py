"""Shapes of usage: what model calls have used, and how the budgets stand."""

from datetime import date
from typing import Any, Literal

from pydantic import ConfigDict, Field

from wenmai.http.shapes.common import Shape

_USER: dict[str, Any] = {"calls": 2, "prompt_tokens": 840, "completion_tokens": 95, "cost_usd": 0.0004}
_TENANT: dict[str, Any] = {"calls": 41, "prompt_tokens": 17220, "completion_tokens": 1930, "cost_usd": 0.0082}


class SpentShown(Shape):
    """What model calls have used."""

    calls: int = Field(description="Those that brought anything: answers, titles, replays, failed attempts.")
    prompt_tokens: int = Field(description="Tokens that were sent to the model.")
    completion_tokens: int = Field(description="Tokens that the model wrote.")
    cost_usd: float = Field(description="As far as the models' prices are stated.")


class DayShown(Shape):
    """One day, UTC."""

    day: date = Field(description="The day, UTC.")
    user: SpentShown = Field(description="Used by the user.")
    tenant: SpentShown = Field(description="Used by all users of the tenant.")


class SessionSpent(Shape):
    """What a session has used in all of its life."""

    session_id: str = Field(description="The session's id.")
    total_tokens_used: int = Field(description="Tokens of all model calls so far.")
    total_cost_usd: float = Field(description="Price of all model calls in US dollars, as far as it is stated.")


class BudgetShown(Shape):
    """How one limit stands at this moment."""

    of: Literal["session", "user_day", "tenant_day"] = Field(description="Whose budget it is, and for how long.")
    measure: Literal["cost_usd", "tokens"] = Field(description="What is limited.")
    limit: float = Field(description="How much may be used.")
    used: float = Field(description="How much has been used.")
    share: float = Field(description="Used of the limit; over 1 if calls under way passed it.")
    hard: bool = Field(description="Whether no model is called any more when it is used up.")
    state: Literal["ok", "warning", "exhausted"] = Field(description="`warning` from a share of 0.8 on.")


class UsageShown(Shape):
    """Usage of the user and of all of the user's tenant, from day to day."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "from": "2026-01-05",
                    "to": "2026-01-05",
                    "user": _USER,
                    "tenant": _TENANT,
                    "days": [{"day": "2026-01-05", "user": _USER, "tenant": _TENANT}],
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
            ]
        }
    )

    from_: date = Field(alias="from", description="The first day, UTC.")
    to: date = Field(description="The last day, UTC.")
    user: SpentShown = Field(description="Used by the user.")
    tenant: SpentShown = Field(description="Used by all users of the tenant.")
    days: list[DayShown] = Field(description="Every day from `from` to `to`, both included.")
    session: SessionSpent | None = Field(default=None, description="With `session_id`.")
    budgets: list[BudgetShown] = Field(description="Those that are set; the session's with `session_id`.")
