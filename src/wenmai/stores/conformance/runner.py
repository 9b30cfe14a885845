"""Runs the cases on a URL and reports the results."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from wenmai.clock import MovableClock
from wenmai.stores.conformance.case import Case, Level
from wenmai.stores.conformance.harness import START, Harness, OpenStore
from wenmai.stores.contracts import Capability, Store

Status = Literal["passed", "failed", "not offered"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "not offered")

CASE_SECONDS = 120.0
"""Timeout of a case; the slowest take a few seconds where every commit is synced."""


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a case; ``error`` says why it failed or was not run, and is empty otherwise."""

    case: str
    capability: Capability
    level: Level
    status: Status
    seconds: float
    error: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Results of a run, one row per case, in the order of the suite."""

    url: str
    rows: Sequence[Result]

    @property
    def ok(self) -> bool:
        """Whether no case failed."""
        return all(row.status != "failed" for row in self.rows)

    def count(self, capability: Capability, level: Level, status: Status) -> int:
        """The number of cases of that capability and level with that status."""
        wanted = (capability, level, status)
        return sum((row.capability, row.level, row.status) == wanted for row in self.rows)

    def render(self) -> str:
        """A plain text table, one line per capability and level, followed by each failure with its reason."""
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
    """Run one case on a newly opened store, in its own tenant, which is cleared afterwards."""
    clock = MovableClock(START)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(CASE_SECONDS), opener(url, clock=clock) as store:
            missing = _missing(case, store)
            if not missing:
                harness = Harness(store, clock, lambda: opener(url, clock=clock))
                try:
                    await case.check(harness)
                finally:
                    await harness.clear()
    except Exception as error:  # noqa: BLE001 — any exception of a backend is a result
        status: Status = "failed"
        reason = f"{type(error).__name__}: {error}"
    else:
        status, reason = ("not offered" if missing else "passed"), missing
    return Result(case.name, case.capability, case.level, status, time.perf_counter() - began, reason)


async def run_cases(
    cases: Sequence[Case],
    url: str,
    *,
    opener: OpenStore,
    only: Collection[str] | None,
    on_result: Callable[[Result], None] | None,
) -> Report:
    """Run the cases whose capability or name is in ``only``, one after another."""
    rows = []
    for case in cases:
        if only is None or case.name in only or case.capability in only:
            rows.append(await run_case(case, url, opener=opener))
            if on_result is not None:
                on_result(rows[-1])
    return Report(url=url, rows=rows)


def _missing(case: Case, store: Store) -> str:
    """Why the store cannot run the case; empty if it can."""
    needed: list[Capability] = ["documents", "logs"] if case.capability == "logs" else [case.capability]
    for capability in needed:
        if getattr(store, capability) is None:
            return f"the backend has no {capability}"
    if case.durable and not getattr(store, "durable", True):
        return "the backend does not keep data after closing"
    return ""
