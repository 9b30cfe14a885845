"""List items: every item of a list is in the passage that has the others."""

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile

from wenmai.grounding.aligned import Window
from wenmai.grounding.checks.statement import Objection, Reason, TestedStatement
from wenmai.grounding.comparison import is_translated, shared_content
from wenmai.grounding.content import Span, Token
from wenmai.text.patterns import word_list

_SEPARATOR = re.compile(r"、|(?<=[\u4e00-\u9fff])(?:和|以及|及|与|或|或者)(?=[\u4e00-\u9fff「“《])")
_SEPARATOR_EN = re.compile(r",? (?:and|or|as well as) |, ")
_JOINS = re.compile(r"\b(?:and|or|as well as)\b")
_VERBS = frozenset(
    word_list(
        """
        be have had do it they he she you can may must will should would could them him itself themselves only within
        turn change if unless more less fewer
        """
    )
)
"""Words that make a clause of what stands after *and*."""

_FINITE = frozenset(word_list("be have has had do may must can will should would could"))
_ENDS_ITEM = _FINITE.union(word_list("at in on of for from with to by through as than"))
"""Words after the last item of a list."""

_HELD = 0.55
_LONGEST_ZH = 5
"""Weight of the longest Chinese text after a list that is its last item and nothing more."""

_RELATED = 0.1
"""Share of a statement that is copied, below which its lists are not those of the passage."""

_COPIED = 0.3
"""The same, below which only an item of a long list is new, of which the passage has nothing."""

_MANY = 3
"""Items of a long list."""

_SHORT = 3
"""Words of the longest English item that is distinguished from a clause."""


def find_uncovered_items(statement: TestedStatement) -> Iterator[Objection]:
    """Items that no window of the best passages holds."""
    pattern = _SEPARATOR if statement.language == "zh" else _SEPARATOR_EN
    marks = [match.span() for match in pattern.finditer(statement.text)]
    if (
        statement.copied < _RELATED
        or not marks
        or (statement.language == "zh" and not any(statement.text[start] == "、" for start, _ in marks))
    ):
        return
    whole = [(statement.content.tokens, window) for window in statement.windows]
    for items in _lists(statement, marks):
        clause = next(each for each in statement.clauses if each.start <= items[0][0].start < each.end)
        if clause.is_verbatim or (statement.copied < _COPIED and len(items) < _MANY):
            continue
        aligned = [*whole, *((clause.tokens, window) for window in clause.windows)]
        missing = [[item for item in items if not _is_held(statement, item, *each)] for each in aligned]
        fewest = min(missing, key=len, default=[])
        for item in fewest:
            yield Objection(item[0].start, item[-1].end, Reason.LIST_ITEM)


def _lists(statement: TestedStatement, marks: Sequence[tuple[int, int]]) -> Iterator[list[list[Token]]]:
    """The items around the separators; of the text before and after a list only the words next to it."""
    tokens = [token for token in statement.content.tokens if token.weight]
    bounds = [0, *(end for _, end in marks), len(statement.text)]
    starts = [*(start for start, _ in marks), len(statement.text)]
    chunks = [
        [token for token in tokens if low <= token.start < high] for low, high in zip(bounds, starts, strict=False)
    ]
    if statement.language == "zh":
        yield [item for item in (chunks[0][-1:], *chunks[1:-1], _last_item(chunks[-1])) if item]
        return
    joined = [_JOINS.search(statement.text[start:end]) is not None for start, end in marks]
    last = len(joined) - joined[::-1].index(True) if True in joined else 0
    for low, high in list(zip(bounds, starts, strict=False))[1 : last + 1]:
        chunk = Span(token for token in statement.content.tokens if low <= token.start < high)
        noun = Span(takewhile(lambda token: token.form not in _ENDS_ITEM, chunk))
        item = [token for token in noun if token.weight]
        clause = len(noun) < len(chunk) and chunk[len(noun)].form in _FINITE and _has_verb(statement, low)
        if item and len(item) <= _SHORT and not (clause or noun.negates) and _VERBS.isdisjoint(noun.forms):
            yield [item]


def _has_verb(statement: TestedStatement, end: int) -> bool:
    """Whether a verb stands before an offset, so that what follows *and* with a verb of its own is a clause."""
    return any(token.form in _FINITE for token in statement.content.tokens if token.end <= end)


def _last_item(chunk: list[Token]) -> list[Token]:
    """The text after the last separator if it is short enough for an item alone, else its first word."""
    return chunk if sum(token.weight for token in chunk) <= _LONGEST_ZH else chunk[:1]


def _is_held(statement: TestedStatement, item: Sequence[Token], tokens: Sequence[Token], window: Window) -> bool:
    """Whether a window holds most of an item, in a sentence with as many negations as its best one.

    In another language a passage lacks it if it is one word, which the files translate and the passage does not have.
    """
    if any(token.word.negates for token in item):
        return True
    if statement.alignment.languages[window.number] != statement.language:
        return len(item) > 1 or not is_translated(item[0]) or statement.is_mentioned(item, window.number)
    held = sum(
        held for token, held in zip(tokens, window.covered, strict=True) if item[0].start <= token.start < item[-1].end
    )
    if statement.copied < _COPIED:
        return held > 0
    if held < _HELD * sum(token.weight for token in item):
        return False
    first, *others = (statement.alignment.passages[window.number].sentences[index] for index in window.sentences)
    if shared_content(item, first.tokens) >= _HELD:
        return True
    negations = sum(token.word.negates for token in first.tokens)
    return all(sum(token.word.negates for token in other.tokens) == negations for other in others)
