"""Numbers of copied clauses: each stands before the same word as in the closest clause of a passage."""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from wenmai.grounding.checks.statement import Clause, Objection, Reason, TestedStatement
from wenmai.grounding.claims.counts import masked
from wenmai.grounding.claims.numerals import NUMERALS, find_numbers
from wenmai.grounding.content import Content
from wenmai.grounding.wording.words import load_words, stem
from wenmai.text.cjk import CJK

_ALIGNED = 0.6
_CLOSE = 0.15
_NEAR = 0.35
"""The same for a number that stands between the same words."""

_ORDINAL = "第"
_NOON = 12.0
_YEAR = 100
_YEARS = frozenset({"", "年"})
_HOURS = frozenset("点时")
_BEFORE = re.compile(r"第$|百分之$|[£€$¥]$")
_DECIMAL = re.compile(rf"[{NUMERALS}]点[{NUMERALS}]")
_AFTER = re.compile(rf"[-\s]*(?:(?:or|and|more than|of the)\s+|[多余来个]+)?(?P<word>[{CJK}%]|[a-z°]+)")


class _Counted(NamedTuple):
    """A number and the word that it counts: the character or stem after it and the sign before it, if any.

    ``before`` and ``after`` are the nearest forms with content on both sides of them.
    """

    value: float
    before: str
    word: str
    after: str
    start: int
    end: int


def find_changed_numbers(statement: TestedStatement) -> Iterator[Objection]:
    """Numbers before a word that stands after other numbers only in the closest clauses."""
    counted = [each for each in _counted(statement.content) if each.value > 1 and each.word]
    for clause in statement.clauses if counted else ():
        own = [each for each in counted if clause.start <= each.start < clause.end]
        if not own or not clause.weight or clause.is_attributed or clause.is_verbatim:
            continue
        close = _counted_near(statement, clause, least=_ALIGNED, within=_CLOSE)
        near = _counted_near(statement, clause, least=_NEAR, within=1.0)
        for number in own:
            others, same = close, [each for each in close if each.word == number.word]
            if not same:
                others, same = (
                    near,
                    [
                        each
                        for each in near
                        if each.word == number.word and (each.before == number.before or number.word[0] == _ORDINAL)
                    ],
                )
            supports = (*same, *_elliptic(others), *(each for each in near if _is_followed_alike(each, number)))
            if same and not any(each.value == number.value for each in supports):
                yield Objection(number.start, number.end, Reason.VALUE)


def _is_followed_alike(one: _Counted, other: _Counted) -> bool:
    """Whether both count the same before the same word: 三年落成, though another clause has 二年."""
    return one.word == other.word and one.after == other.after != ""


def _elliptic(counted: Iterable[_Counted]) -> Iterator[_Counted]:
    """The numbers whose unit is left out: 14 crowns for adults and 6 for children."""
    known = load_words().known
    for each in counted:
        word = known.get(each.word)
        if not each.word or (each.word.isascii() and word is not None and not word.content):
            yield each


def _counted_near(statement: TestedStatement, clause: Clause, *, least: float, within: float) -> list[_Counted]:
    """The numbers of the clauses that share some of a clause's content."""
    return [
        each
        for sentence, tokens in statement.closest(clause, least=least, within=within)
        for each in _counted(sentence)
        if tokens[0].start <= each.start < tokens[-1].end
    ]


@lru_cache(maxsize=4096)
def _counted(content: Content) -> tuple[_Counted, ...]:
    """The numbers of a sentence that count something; cached, since those of passages are compared with many."""
    text = masked(content.folded)
    numbers = [*find_numbers(text)]
    if not numbers:
        return ()
    forms: dict[int, str] = {}
    last = ""
    for token in content.tokens:
        forms[token.start] = last
        last = token.form if token.own_weight else last
    stated = [token for token in content.tokens if token.own_weight]
    found = []
    for number in numbers:
        before = _BEFORE.search(text, max(0, number.start - 3), number.start)
        after = _AFTER.match(text, number.end)
        word = (before[0] if before else "") + (stem(after["word"]) if after else "")
        value = number.value
        decimal = _DECIMAL.search(text, max(0, number.start - 2), number.end + 2)
        if value is None or decimal or (value >= _YEAR and word in _YEARS):
            continue
        if word in _HOURS:
            value %= _NOON
        end = after.end() if after else number.end
        following = next((token.form for token in stated if token.start >= end), "")
        found.append(_Counted(value, forms.get(number.start, ""), word, following, number.start, number.end))
    return tuple(found)
