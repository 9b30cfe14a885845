"""Coverage: the share of a clause's content that the passages hold, which new words lower."""

from collections.abc import Iterator, Sequence

import msgspec

from wenmai.grounding.aligned import Window
from wenmai.grounding.checks.courtesy import is_courtesy
from wenmai.grounding.checks.records import is_denial, is_topic
from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.content import Token


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a clause must be covered, calibrated on the development cases.

    Attributes:
        share: of all content.
        new: of the content that is not in the question.
        run: weight of adjacent uncovered content from which a clause is rejected.
    """

    share: float
    new: float
    run: float


SAME_LANGUAGE = {
    "zh": Thresholds(share=0.55, new=0.4, run=5.0),
    "en": Thresholds(share=0.5, new=0.35, run=7.0),
}
TRANSLATED = Thresholds(share=0.5, new=0.4, run=99.0)
_VALUE = 2.0
"""Weight of a value or name, which the checks of values have found."""

_LEAST = 3
"""Weight from which a clause is judged alone; a lighter one is judged with its neighbour."""


def find_uncovered(statement: TestedStatement, names: Sequence[str]) -> Iterator[Objection]:
    """Clauses whose content no window of a passage covers."""
    for clause in merge_light(statement, names):
        if clause.weight and not _is_covered(statement, clause):
            yield Objection(clause.start, clause.end, Reason.COVERAGE)


def merge_light(statement: TestedStatement, names: Sequence[str]) -> list[Clause]:
    """The clauses that state something, light ones joined to the next, the last one to the one before."""
    groups: list[tuple[Token, ...]] = []
    pending: tuple[Token, ...] = ()
    for clause in statement.clauses:
        if (
            is_courtesy(clause.tokens, statement.question, names)
            or is_denial(statement, clause)
            or is_topic(statement, clause)
        ):
            continue
        pending += clause.tokens
        if sum(token.weight for token in pending) >= _LEAST:
            groups.append(pending)
            pending = ()
    if pending:
        groups = [*groups[:-1], (groups[-1] if groups else ()) + pending]
    return [Clause(tokens, statement.align(tokens)) for tokens in groups]


def _is_covered(statement: TestedStatement, clause: Clause) -> bool:
    users = statement.asked if statement.is_attributed(clause) else frozenset()
    return any(_covers(window, clause.tokens, statement, users) for window in clause.windows)


def _covers(window: Window, tokens: Sequence[Token], statement: TestedStatement, users: frozenset[str]) -> bool:
    translated = statement.alignment.languages[window.number] != statement.language
    limits = TRANSLATED if translated else SAME_LANGUAGE[statement.language]
    asked = statement.asked
    covered = total = new = new_total = run = longest = 0.0
    values = _VALUE * sum(tokens[0].start <= claim.start < tokens[-1].end for claim in statement.claims)
    covered, total, new, new_total = values, values, values, values
    for token, held in zip(tokens, window.covered, strict=True):
        if not token.weight:
            continue
        if translated and not held and not token.word.concepts:
            continue  # a word that no file translates
        weight, share = float(token.weight), float(token.weight) if token.form in users else held
        covered, total = covered + share, total + weight
        if token.form not in asked:
            new, new_total = new + share, new_total + weight
        run = 0.0 if share else run + weight
        longest = max(longest, run)
    return covered >= limits.share * total and new >= limits.new * new_total and longest < limits.run
