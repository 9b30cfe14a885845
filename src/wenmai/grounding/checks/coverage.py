"""Coverage: the share of a clause's content that the passages hold, which new words lower."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wenmai.grounding.aligned import Window
from wenmai.grounding.checks.records import is_denial, is_topic
from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.comparison import is_translated
from wenmai.grounding.content import Span, Token


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """How much must be covered, calibrated on the development cases.

    Attributes:
        sentence: share of a whole sentence.
        clause: share of each of its clauses.
        new: share of the content that is not in the question, of a whole sentence.
    """

    sentence: float
    clause: float
    new: float


SAME_LANGUAGE = {
    "zh": Thresholds(sentence=0.45, clause=0.4, new=0.5),
    "en": Thresholds(sentence=0.4, clause=0.4, new=0.35),
}
TRANSLATED = Thresholds(sentence=0.5, clause=0.0, new=0.25)
_VALUE = 3.0
"""Weight of a value or name, which the checks of values have found."""

_UNTRANSLATED = 0.2
"""Share of the weight of a word that the files do not translate."""

_CAUSE = re.compile(r"因为|由于|起因是|(?<!原)因(?=[^此而])|\b(?:because(?: of)?|due to|owing to)\b")
_CAUSED = 0.25
"""Share of a cause from which a passage may state it."""

_LEAST = 5
"""Weight from which a clause is judged alone; a lighter one is judged with its neighbour."""


def find_uncovered(statement: TestedStatement) -> Iterator[Objection]:
    """The sentence, or clauses of it, whose content no window of a passage covers."""
    clauses = merge_light(statement)
    if not any(clause.weight for clause in clauses):
        return
    whole = _joined(statement, clauses)
    if not _is_covered(statement, whole, whole=True):
        yield Objection(whole.start, whole.end, Reason.COVERAGE)
        return
    for clause in clauses:
        if not _is_covered(statement, clause, whole=False) and not clause.is_verbatim:
            yield Objection(clause.start, clause.end, Reason.COVERAGE)


def merge_light(statement: TestedStatement) -> list[Clause]:
    """The clauses that state something, light ones joined to the next, the last one to the one before."""
    groups: list[list[Clause]] = []
    pending: list[Clause] = []
    for clause in statement.clauses:
        if states_nothing(statement, clause):
            continue
        pending.append(clause)
        if sum(each.weight for each in pending) >= _LEAST:
            groups.append(pending)
            pending = []
    if pending:
        groups = [*groups[:-1], [*(groups[-1] if groups else ()), *pending]]
    return [_joined(statement, group) for group in groups]


def _joined(statement: TestedStatement, clauses: Sequence[Clause]) -> Clause:
    if len(clauses) == 1:
        return clauses[0]
    return statement.clause(Span(token for clause in clauses for token in clause.tokens))


def states_nothing(statement: TestedStatement, clause: Clause) -> bool:
    """Whether a clause is a courtesy, a denial of records, or names the topic of one."""
    return statement.states_nothing(clause) or is_denial(statement, clause) or is_topic(statement, clause)


def _is_covered(statement: TestedStatement, clause: Clause, *, whole: bool) -> bool:
    users = statement.asked if clause.is_attributed else frozenset()
    return any(_covers(window, clause.tokens, statement, users, whole=whole) for window in clause.windows)


def find_invented_causes(statement: TestedStatement) -> Iterator[Objection]:
    """What stands after *because*, if the passage that the sentence is aligned to has next to nothing of it."""
    cause = _CAUSE.search(statement.content.folded)
    if cause is None or not statement.windows or statement.attribution.is_attributed(*cause.span()):
        return
    end = next((each.end for each in statement.clauses if each.end > cause.end()), len(statement.text))
    stated = [
        (token, held)
        for token, held in zip(statement.content.tokens, statement.windows[0].covered, strict=True)
        if token.weight and cause.end() <= token.start < end
    ]
    if sum(held for _, held in stated) < _CAUSED * sum(token.weight for token, _ in stated):
        yield Objection(cause.start(), end, Reason.COVERAGE)


def _covers(
    window: Window,
    tokens: Sequence[Token],
    statement: TestedStatement,
    users: frozenset[str],
    *,
    whole: bool,
) -> bool:
    translated = statement.alignment.languages[window.number] != statement.language
    limits = TRANSLATED if translated else SAME_LANGUAGE[statement.language]
    values = _VALUE * sum(tokens[0].start <= claim.start < tokens[-1].end for claim in statement.claims)
    covered = total = new = new_total = values
    for token, held in zip(tokens, window.covered, strict=True):
        if not token.weight:
            continue
        weight, share = float(token.weight), float(token.weight) if token.form in users else held
        if translated and not held and not is_translated(token):
            weight *= _UNTRANSLATED
        covered, total = covered + share, total + weight
        if token.form not in statement.asked:
            new, new_total = new + share, new_total + weight
    if not whole:
        return covered >= limits.clause * total
    return bool(total) and covered >= limits.sentence * total and new >= limits.new * new_total
