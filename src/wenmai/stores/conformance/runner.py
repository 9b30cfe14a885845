"""Running the cases on a URL, and the table of what came of it."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from wenmai.clock import MovableClock
from wenmai.stores.base import Capability, Store
from wenmai.stores.conformance.case import Case, Level
from wenmai.stores.conformance.ground import START, Ground, OpenStore

Status = Literal["passed", "failed", "not offered"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "not offered")

CASE_SECONDS = 120.0
"""A case that takes longer has failed; the slowest take a few seconds where every commit is synced."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a case; ``error`` says in words why it failed or was not run, else it is empty."""

    case: str
    capability: Capability
    level: Level
    status: Status
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a run, a row a case, in the order of the suite."""

    url: str
    rows: Sequence[Result]

    @property
    def ok(self) -> bool:
        """Whether nothing that the backend offers failed."""
        return all(row.status != "failed" for row in self.rows)

    def count(self, capability: Capability, level: Level, status: Status) -> int:
        """How many cases of that capability and level have that status."""
        wanted = (capability, level, status)
        return sum((row.capability, row.level, row.status) == wanted for row in self.rows)

    def render(self) -> str:
        """A plain text table, a line a capability and level, and below it each failure with its reason."""
        groups = list(dict.fromkeys((row.capability, row.level) for row in self.rows))
        lines = [
            self.url,
            f"{'capability':<12}{'level':<10}" + "".join(f"{status:>13}" for status in STATUSES),
        ]
        for capability, level in groups:
            counts = [self.count(capability, level, status) for status in STATUSES]
            lines.append(f"{capability:<12}{level:<10}" + "".join(f"{number or '–':>13}" for number in counts))
        lines += [f"FAILED {row.capability}/{row.case}: {row.error}" for row in self.rows if row.status == "failed"]
        return "\n".join(lines)


async def run_case(case: Case, url: str, *, opener: OpenStore) -> Result:
    """Run one case on its own opening of ``url``, in a tenant of its own that is cleared afterwards."""
    clock = MovableClock(START)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(CASE_SECONDS), opener(url, clock=clock) as store:
            lacking = _lacking(case, store)
            if not lacking:
                ground = Ground(store, clock, lambda: opener(url, clock=clock))
                try:
                    await case.check(ground)
                finally:
                    await ground.clear()
    except Exception as error:  # noqa: BLE001 — a backend may fail in any way, and each is a finding
        status: Status = "failed"
        reason = f"{type(error).__name__}: {error}"
    else:
        status, reason = ("not offered" if lacking else "passed"), lacking
    return Result(case.name, case.capability, case.level, status, time.perf_counter() - began, reason)


async def run_cases(
    cases: Sequence[Case],
    url: str,
    *,
    opener: OpenStore,
    only: Collection[str] | None,
    on_result: Callable[[Result], None] | None,
) -> Report:
    """Run those of the cases whose capability or name is in ``only``, one after another."""
    rows = []
    for case in cases:
        if only is None or case.name in only or case.capability in only:
            rows.append(await run_case(case, url, opener=opener))
            if on_result is not None:
                on_result(rows[-1])
    return Report(url=url, rows=rows)


def _lacking(case: Case, store: Store) -> str:
    """What the store does not offer of what the case needs, in words; empty if it offers all of it."""
    needed: list[Capability] = ["documents", "logs"] if case.capability == "logs" else [case.capability]
    for capability in needed:
        if getattr(store, capability) is None:
            return f"the backend has no {capability}"
    if case.durable and not getattr(store, "durable", True):
        return "the backend keeps nothing beyond its opening"
    return ""
