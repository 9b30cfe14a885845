"""Reports: figures by group as rows of a table and as JSON, and the cases that failed."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from wenmai.evaluation.scoring import AnswerFigures, AskedTurn, TurnScore, answer_figures, percentile, score_turn
from wenmai.evaluation.statement_scoring import StatementFigures, VerifiedStatement, statement_figures
from wenmai.evaluation.statements import VerifiedSet

Row = list[str]
_Item = TypeVar("_Item")
_Figures = TypeVar("_Figures", AnswerFigures, StatementFigures)
Groups = dict[str, dict[str, _Figures]]
"""Kind of group (``all``, ``category`` …) → group → figures."""

ANSWER_HEAD = [
    "",
    "asked",
    "to answer",
    "answered",
    "right citation",
    "shown",
    "right",
    "held wrongly",
    "wrong of normal",
    "to hold",
    "held",
    "answered",
    "courtesy right",
    "ms",
    "p95",
]
STATEMENT_HEAD = ["", "false", "leaked", "as normal", "true", "removed"]


class AnswerReport:
    """Scores of asked turns."""

    def __init__(self, asked: Sequence[AskedTurn]) -> None:
        self.scored: list[tuple[AskedTurn, TurnScore]] = [(each, score_turn(each)) for each in asked]
        self.groups: Groups[AnswerFigures] = _grouped(
            self.scored,
            answer_figures,
            {
                "set": lambda each: each[0].set_name,
                "category": lambda each: each[0].turn.category,
                "language": lambda each: each[0].language,
            },
        )

    def rows(self) -> Iterator[Row]:
        """The table: its head, then a row for each group."""
        yield ANSWER_HEAD
        for name, each in _named(self.groups):
            yield [
                name,
                str(each.asked),
                str(each.answerable),
                *(_share(part, each.answerable) for part in (each.answered, each.right_citation, each.shown)),
                _share(each.right, each.answerable),
                _share(each.held_back_wrongly, each.answerable),
                _share(each.wrong, each.normal_cited),
                str(each.unanswerable),
                _share(each.held_back, each.unanswerable),
                _share(each.answered_wrongly, each.unanswerable),
                _share(each.courtesy_right, each.courtesies),
                f"{each.median_ms:.1f}",
                f"{each.p95_ms:.1f}",
            ]

    def notes(self) -> list[str]:
        """Lines below the table: none."""
        return []

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        return {kind: msgspec.to_builtins(groups) for kind, groups in self.groups.items()}

    def failures(self) -> list[dict[str, Any]]:
        """The turns that are not right, with question, expectation, answer and problems."""
        return [
            {"problems": score.problems, **msgspec.to_builtins(asked)} for asked, score in self.scored if score.problems
        ]


class StatementReport:
    """Scores of verified statements."""

    def __init__(self, sets: Sequence[VerifiedSet]) -> None:
        self.statements: list[VerifiedStatement] = [each for done in sets for each in done.statements]
        self._ms = [each for done in sets for each in done.ms]
        self._characters = [float(each) for done in sets for each in done.characters]
        self.groups: Groups[StatementFigures] = _grouped(
            self.statements,
            statement_figures,
            {
                "set": lambda each: each.set_name,
                "kind": lambda each: each.statement.kind,
                "language": lambda each: each.language,
            },
        )

    def rows(self) -> Iterator[Row]:
        """The table: its head, then a row for each group."""
        yield STATEMENT_HEAD
        for name, each in _named(self.groups):
            yield [
                name,
                str(each.false),
                _share(each.leaked, each.false),
                _share(each.leaked_as_normal, each.false),
                str(each.true),
                _share(each.overblocked, each.true),
            ]

    def notes(self) -> list[str]:
        """Lines below the table: the cost."""
        return [" · ".join(f"{name.replace('_', ' ')}: {value:g}" for name, value in self.cost().items())]

    def cost(self) -> dict[str, float]:
        """Milliseconds and characters of an answer."""
        return {
            "answers": len(self._ms),
            "median_ms": percentile(self._ms, 0.5),
            "p95_ms": percentile(self._ms, 0.95),
            "median_characters": percentile(self._characters, 0.5),
            "p95_characters": percentile(self._characters, 0.95),
        }

    def figures(self) -> dict[str, Any]:
        """All figures, for JSON."""
        groups = {kind: msgspec.to_builtins(groups) for kind, groups in self.groups.items()}
        return {**groups, "cost": self.cost()}

    def failures(self) -> list[dict[str, Any]]:
        """The statements that are not right."""
        return [
            {"problems": ["removed" if each.statement.true else "leaked"], **msgspec.to_builtins(each)}
            for each in self.statements
            if not each.right
        ]


def _grouped(
    items: Sequence[_Item], count: Callable[[Sequence[_Item]], _Figures], kinds: dict[str, Callable[[_Item], str]]
) -> Groups[_Figures]:
    groups: Groups[_Figures] = {"all": {"all": count(items)}}
    for kind, key in kinds.items():
        names = sorted({key(item) for item in items})
        groups[kind] = {name: count([item for item in items if key(item) == name]) for name in names}
    return groups


def _named(groups: Groups[_Figures]) -> Iterator[tuple[str, _Figures]]:
    """All groups; without the sets if there is one only."""
    for kind, members in groups.items():
        if kind != "set" or len(members) > 1:
            yield from members.items()


def table(rows: Sequence[Row]) -> Iterator[str]:
    """The rows as lines of aligned columns, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *cells in rows:
        right = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([name.ljust(widths[0]), *right])


def _share(part: int, whole: int) -> str:
    return f"{part} {part / whole:4.0%}" if whole else "–"


def failure_lines(failure: dict[str, Any]) -> Iterator[str]:
    """A failed case as lines for a terminal."""
    if "found" in failure and "evidence" in failure:
        yield f"{failure['set']} {failure['category']}: {failure['question']}"
        yield f"  expected  {failure['evidence']}"
        yield f"  found     {failure['found']}"
    elif "turn" in failure:
        turn = failure["turn"]
        yield f"{failure['id']}.{failure['number']} {turn['category']}: {'; '.join(failure['problems'])}"
        yield f"  asked     {turn['ask']}"
        if failure["searched"] != turn["ask"]:
            yield f"  searched  {failure['searched']}"
        yield f"  expected  {turn['expect']} {', '.join(turn.get('cite', []))} {turn.get('show', [])}"
        yield f"  answered  {failure['mode']} {failure['reason']} [{', '.join(failure['citations'])}]"
        yield f"            {failure['answer']}"
        yield f"  found     {', '.join(failure['found'])}"
    else:
        statement = failure["statement"]
        yield f"{failure['id']}.{failure['number']} {statement['kind']}: {'; '.join(failure['problems'])}"
        yield f"  statement {statement['text']}" + (f"  (lie: {statement['lie']})" if statement["lie"] else "")
        yield f"  verified  {failure['mode']} {failure['reason']}"
        yield f"            {failure['verified']}"
