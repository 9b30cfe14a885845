"""Models of usage: tokens and cost of model calls, and budget status."""

from datetime import date
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from wenmai.http.schemas.common import ResponseModel

_USER: dict[str, Any] = {"calls": 2, "prompt_tokens": 840, "completion_tokens": 95, "cost_usd": 0.0004}
_TENANT: dict[str, Any] = {"calls": 41, "prompt_tokens": 17220, "completion_tokens": 1930, "cost_usd": 0.0082}


class TokenUsageView(ResponseModel):
    """Tokens and cost of model calls."""

    calls: int = Field(
        description="Model calls that returned or cost anything: answers, titles, replays, failed attempts."
    )
    prompt_tokens: int = Field(description="Prompt tokens.")
    completion_tokens: int = Field(description="Completion tokens.")
    cost_usd: float = Field(description="Cost in US dollars, for models with a configured price.")


class DailyUsageView(ResponseModel):
    """One day, UTC."""

    day: date = Field(description="The day, UTC.")
    user: TokenUsageView = Field(description="Usage of the user.")
    tenant: TokenUsageView = Field(description="Usage of all users of the tenant.")


class SessionUsageView(ResponseModel):
    """Usage of a session over its lifetime."""

    session_id: str = Field(description="The session's id.")
    total_tokens_used: int = Field(description="Tokens of all model calls.")
    total_cost_usd: float = Field(
        description="Cost of all model calls in US dollars, for models with a configured price."
    )


class BudgetView(ResponseModel):
    """Current status of one budget limit."""

    of: Literal["session", "user_day", "tenant_day"] = Field(description="The subject and period of the budget.")
    measure: Literal["cost_usd", "tokens"] = Field(description="The limited quantity.")
    limit: float = Field(description="The limit.")
    used: float = Field(description="Usage so far.")
    share: float = Field(description="Usage divided by the limit; over 1 if concurrent calls exceeded it.")
    hard: bool = Field(description="Whether model calls stop when the budget is exhausted.")
    state: Literal["ok", "warning", "exhausted"] = Field(description="`warning` from a share of 0.8 on.")


class UsageView(ResponseModel):
    """Usage of the user and of the tenant, per day."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
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
    user: TokenUsageView = Field(description="Usage of the user.")
    tenant: TokenUsageView = Field(description="Usage of all users of the tenant.")
    days: list[DailyUsageView] = Field(description="Every day from `from` to `to`, both included.")
    session: SessionUsageView | None = Field(default=None, description="Usage of the session, with `session_id`.")
    budgets: list[BudgetView] = Field(description="The configured budgets; that of the session with `session_id`.")
