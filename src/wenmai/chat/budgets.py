"""Budgets: how much of each is used, a warning before it is used up, and an end to model calls if it is hard.

A budget is looked at before a call. Calls that are under way at that moment are finished, so what is spent may pass the
limit by them.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

import msgspec

from wenmai.chat.profile import Budget, Budgets
from wenmai.clock import Clock
from wenmai.errors import SessionNotFound
from wenmai.memory.manager import Memory
from wenmai.memory.usage import DayUsage
from wenmai.scope import Scope

_log = logging.getLogger(__name__)

WARN_AT = 0.8
REMEMBERED = 10_000
"""So many warnings are remembered, in order not to be logged again."""

BudgetOf = Literal["session", "user_day", "tenant_day"]


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """How one limit of a budget stands.

    Attributes:
        of: a session for all of its life, a user or a tenant on the present day, UTC.
        measure: what is limited.
        share: used of the limit; 1 when it is used up, more if calls under way passed it.
        hard: whether model calls end when it is used up.
    """

    of: BudgetOf
    measure: Literal["cost_usd", "tokens"]
    limit: float
    used: float
    share: float
    hard: bool
    state: Literal["ok", "warning", "exhausted"]


def exhausted(standings: Sequence[Standing]) -> BudgetOf | None:
    """The hard budget that forbids to call a model, None if none does."""
    return next((each.of for each in standings if each.hard and each.state == "exhausted"), None)


class BudgetKeeper:
    """Says how the budgets of the profile stand, and warns."""

    def __init__(self, budgets: Budgets, memory: Memory, clock: Clock) -> None:
        self._budgets = budgets
        self._memory = memory
        self._clock = clock
        self._warned: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def check(self, scope: Scope, session_id: str) -> list[Standing]:
        """As :meth:`standings`; what is nearly or wholly used up is logged, once a session, user or tenant and day."""
        found = await self.standings(scope, session_id)
        for standing in found:
            if standing.state != "ok":
                self._warn(standing, scope, session_id)
        return found

    async def standings(self, scope: Scope, session_id: str | None = None) -> list[Standing]:
        """Each limit that is set, the session's only if one is given.

        Reads nothing where there is no budget; else one read of the usage records and, at the same time, one of the
        session where it has a budget.
        """
        today, session = await asyncio.gather(self._today(scope), self._session(scope, session_id))
        return [
            *(_standings("session", self._budgets.session, *session) if session else ()),
            *(_standings("user_day", self._budgets.user_day, today.user.cost_usd, today.user.tokens) if today else ()),
            *(
                _standings("tenant_day", self._budgets.tenant_day, today.tenant.cost_usd, today.tenant.tokens)
                if today
                else ()
            ),
        ]

    async def _today(self, scope: Scope) -> DayUsage | None:
        if self._budgets.user_day is None and self._budgets.tenant_day is None:
            return None
        day = self._clock().date()
        return (await self._memory.usage.totals(scope, day, day))[0]

    async def _session(self, scope: Scope, session_id: str | None) -> tuple[float, int] | None:
        """What the session has cost, and its tokens; nothing if it is gone."""
        if self._budgets.session is None or session_id is None:
            return None
        try:
            session = (await self._memory.sessions.get(scope, session_id)).record
        except SessionNotFound:
            return 0.0, 0
        return session.total_cost_usd, session.total_tokens_used

    def _warn(self, standing: Standing, scope: Scope, session_id: str) -> None:
        whose = {
            "session": (*scope, session_id),
            "user_day": (*scope, str(self._clock().date())),
            "tenant_day": (scope.tenant_id, str(self._clock().date())),
        }[standing.of]
        warning = standing.of, standing.measure, standing.state, *whose
        if warning in self._warned:
            return
        self._warned[warning] = None
        if len(self._warned) > REMEMBERED:
            self._warned.popitem(last=False)
        _log.warning(
            "the %s budget of %s is %s: %g of %g in %s",
            standing.of, "/".join(whose), "used up" if standing.state == "exhausted" else "nearly used up",
            standing.used, standing.limit, standing.measure,
        )  # fmt: skip


def _standings(of: BudgetOf, budget: Budget | None, cost_usd: float, tokens: int) -> list[Standing]:
    if budget is None:
        return []
    limits: list[tuple[Literal["cost_usd", "tokens"], float | None, float]] = [
        ("cost_usd", budget.cost_usd, cost_usd),
        ("tokens", budget.tokens, tokens),
    ]
    return [_standing(of, measure, limit, used, hard=budget.hard) for measure, limit, used in limits if limit]


def _standing(
    of: BudgetOf, measure: Literal["cost_usd", "tokens"], limit: float, used: float, *, hard: bool
) -> Standing:
    share = used / limit
    state: Literal["ok", "warning", "exhausted"] = (
        "exhausted" if share >= 1 else "warning" if share >= WARN_AT else "ok"
    )
    return Standing(of=of, measure=measure, limit=limit, used=used, share=share, hard=hard, state=state)
