"""Budgets: status, a warning before one is exhausted, and no more model calls once a hard one is.

A budget is checked before a call. Calls in progress at that moment are completed, so usage may exceed the limit by
them.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Sequence
from typing import Literal

from wenmai.clock import Clock
from wenmai.config.profile import Budget, Budgets
from wenmai.errors import SessionNotFound
from wenmai.memory.library import Memory
from wenmai.memory.usage import DayUsage
from wenmai.scope import Scope
from wenmai.stores.records import BudgetKind, BudgetStatus

_log = logging.getLogger(__name__)

WARN_AT = 0.8
MAX_REMEMBERED_WARNINGS = 10_000
"""Warnings remembered to avoid logging them again."""


def exhausted(statuses: Sequence[BudgetStatus]) -> BudgetKind | None:
    """The exhausted hard budget, because of which no model may be called; None if there is none."""
    return next((each.of for each in statuses if each.hard and each.state == "exhausted"), None)


class BudgetKeeper:
    """Checks the budgets of the profile, and logs warnings."""

    def __init__(self, budgets: Budgets, memory: Memory, clock: Clock) -> None:
        self._budgets = budgets
        self._memory = memory
        self._clock = clock
        self._warned: OrderedDict[tuple[str, ...], None] = OrderedDict()

    async def check(self, scope: Scope, session_id: str) -> list[BudgetStatus]:
        """Like :meth:`statuses`; logs (nearly) exhausted budgets, once per session, user or tenant and day."""
        found = await self.statuses(scope, session_id)
        for status in found:
            if status.state != "ok":
                self._warn(status, scope, session_id)
        return found

    async def statuses(self, scope: Scope, session_id: str | None = None) -> list[BudgetStatus]:
        """The status of each configured limit; the session's only if a session is given.

        Reads nothing without budgets; else one read of the usage records and, concurrently, one of the session if
        sessions have a budget.
        """
        today, session = await asyncio.gather(self._today(scope), self._session(scope, session_id))
        return [
            *(_statuses("session", self._budgets.session, *session) if session else ()),
            *(_statuses("user_day", self._budgets.user_day, today.user.cost_usd, today.user.tokens) if today else ()),
            *(
                _statuses("tenant_day", self._budgets.tenant_day, today.tenant.cost_usd, today.tenant.tokens)
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
        """The session's cost and tokens; zeros if it was deleted."""
        if self._budgets.session is None or session_id is None:
            return None
        try:
            session = (await self._memory.sessions.get(scope, session_id)).record
        except SessionNotFound:
            return 0.0, 0
        return session.total_cost_usd, session.total_tokens_used

    def _warn(self, status: BudgetStatus, scope: Scope, session_id: str) -> None:
        owner = {
            "session": (*scope, session_id),
            "user_day": (*scope, str(self._clock().date())),
            "tenant_day": (scope.tenant_id, str(self._clock().date())),
        }[status.of]
        warning = status.of, status.measure, status.state, *owner
        if warning in self._warned:
            return
        self._warned[warning] = None
        if len(self._warned) > MAX_REMEMBERED_WARNINGS:
            self._warned.popitem(last=False)
        _log.warning(
            "the %s budget of %s is %s: %g of %g in %s",
            status.of, "/".join(owner), "used up" if status.state == "exhausted" else "nearly used up",
            status.used, status.limit, status.measure,
        )  # fmt: skip


def _statuses(of: BudgetKind, budget: Budget | None, cost_usd: float, tokens: int) -> list[BudgetStatus]:
    if budget is None:
        return []
    limits: list[tuple[Literal["cost_usd", "tokens"], float | None, float]] = [
        ("cost_usd", budget.cost_usd, cost_usd),
        ("tokens", budget.tokens, tokens),
    ]
    return [_status(of, measure, limit, used, hard=budget.hard) for measure, limit, used in limits if limit]


def _status(
    of: BudgetKind, measure: Literal["cost_usd", "tokens"], limit: float, used: float, *, hard: bool
) -> BudgetStatus:
    share = used / limit
    state: Literal["ok", "warning", "exhausted"] = (
        "exhausted" if share >= 1 else "warning" if share >= WARN_AT else "ok"
    )
    return BudgetStatus(of=of, measure=measure, limit=limit, used=used, share=share, hard=hard, state=state)
