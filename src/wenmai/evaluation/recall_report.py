"""Figures of recall: how much of the evidence is among the first items, or within a budget of tokens."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from statistics import fmean
from typing import Any

from wenmai.evaluation.recall import AskedQuestion
from wenmai.evaluation.scoring import percentile

DEPTHS = (1, 3, 5, 10, 20, 50)
BUDGETS = (500, 1_000, 2_000)
HIT_DEPTH, ALL_DEPTH = 5, 10

_Row = list[str]


class RecallReport:
    """Figures by category and over all questions; those without a category have that of all."""

    def __init__(self, asked: Sequence[AskedQuestion]) -> None:
        self._asked = asked
        categories = sorted({each.question.category for each in asked} - {"all"})
        groups = {"all": asked} | {
            name: [each for each in asked if each.question.category == name] for name in categories
        }
        self.groups: dict[str, dict[str, float]] = {name: _figures(members) for name, members in groups.items()}

    def rows(self) -> Iterator[_Row]:
        """The table: its head, then a row for each group."""
        names = list(self.groups["all"])
        yield ["", *names]
        for group, figures in self.groups.items():
            yield [group, *(f"{figures[name]:g}" if name == "asked" else f"{figures[name]:.3f}" for name in names)]

    def notes(self) -> list[str]:
        """Lines below the table: the cost."""
        return [" · ".join(f"{name}: {value:.1f}" for name, value in self.cost().items())]

    def cost(self) -> dict[str, float]:
        """Milliseconds of a question, with the embedding of the question."""
        ms, cpu = [each.ms for each in self._asked], [each.cpu_ms for each in self._asked]
        return {
            "median ms": percentile(ms, 0.5),
            "p95 ms": percentile(ms, 0.95),
            "median CPU ms": percentile(cpu, 0.5),
        }

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {"groups": self.groups, "cost": self.cost()}

    def failures(self) -> list[dict[str, Any]]:
        """The questions of which some evidence is not among the first ten items."""
        return [
            {
                "set": each.set_name,
                "category": each.question.category,
                "question": each.question.question,
                "evidence": each.question.evidence,
                "found": each.found[:ALL_DEPTH],
            }
            for each in self._asked
            if _recall(each, ALL_DEPTH) < 1
        ]


def _figures(asked: Sequence[AskedQuestion]) -> dict[str, float]:
    def mean(values: Iterator[float]) -> float:
        return fmean([*values] or [0.0])

    return {
        "asked": len(asked),
        **{f"R@{depth}": mean(_recall(each, depth) for each in asked) for depth in DEPTHS},
        f"hit@{HIT_DEPTH}": mean(float(_recall(each, HIT_DEPTH) > 0) for each in asked),
        f"all@{ALL_DEPTH}": mean(float(_recall(each, ALL_DEPTH) == 1) for each in asked),
        "MRR": mean(_reciprocal_rank(each) for each in asked),
        **{f"R@{budget}t": mean(_recall(each, _depth_within(each, budget)) for each in asked) for budget in BUDGETS},
    }


def _recall(asked: AskedQuestion, depth: int) -> float:
    """The share of the evidence among the first items."""
    found = {id_ for ids in asked.found[:depth] for id_ in ids}
    parts = [not found.isdisjoint(part) for part in asked.question.evidence]
    return float(any(parts)) if asked.question.any else sum(parts) / len(parts)


def _depth_within(asked: AskedQuestion, budget: int) -> int:
    """How many of the first items fit."""
    return sum(total <= budget for total in accumulate(asked.tokens))


def _reciprocal_rank(asked: AskedQuestion) -> float:
    wanted = {id_ for part in asked.question.evidence for id_ in part}
    ranks = (rank for rank, ids in enumerate(asked.found, start=1) if not wanted.isdisjoint(ids))
    return 1 / next(ranks, float("inf"))
