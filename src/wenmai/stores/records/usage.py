"""Usage of models, and the budgets that limit it."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from wenmai.stores.records.base import Record, RecordSpec


class UsageRecord(Record, frozen=True, kw_only=True):
    """One shard of the model usage of a day, for one user, persona or tenant; see :mod:`wenmai.memory.usage`.

    Attributes:
        day: YYYY-MM-DD, UTC.
        of: the id of the tenant; for a user or persona the site id, then its id.
    """

    spec: ClassVar[RecordSpec] = RecordSpec("usage", key="ref", shared=True, filters=("day",))

    ref: str
    day: str
    kind: Literal["user", "persona", "tenant"]
    of: str
    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and cost of model calls; values can be added."""

    calls: Annotated[
        int,
        Meta(description="Model calls that returned or cost anything: answers, titles, replays, failed attempts."),
    ] = 0
    prompt_tokens: Annotated[int, Meta(description="Prompt tokens.")] = 0
    completion_tokens: Annotated[int, Meta(description="Completion tokens.")] = 0
    cost_usd: Annotated[float, Meta(description="Cost in US dollars, for models with a configured price.")] = 0.0

    @property
    def tokens(self) -> int:
        """Prompt and completion tokens together."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
        )


BudgetKind = Literal["session", "user_day", "tenant_day"]


class BudgetStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Status of one limit of a budget: of a session for its whole life, of a user or tenant for the UTC day."""

    of: Annotated[BudgetKind, Meta(description="The subject and period of the budget.")]
    measure: Annotated[Literal["cost_usd", "tokens"], Meta(description="The limited quantity.")]
    limit: Annotated[float, Meta(description="The limit.")]
    used: Annotated[float, Meta(description="Usage so far.")]
    share: Annotated[float, Meta(description="Usage divided by the limit; over 1 if concurrent calls exceeded it.")]
    hard: Annotated[bool, Meta(description="Whether model calls stop when the budget is exhausted.")]
    state: Annotated[Literal["ok", "warning", "exhausted"], Meta(description="`warning` from a share of 0.8 on.")]
