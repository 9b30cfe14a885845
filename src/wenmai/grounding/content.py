"""The content of a text: its words in order, as concepts, stems or characters, with clauses and negation."""

import re
from collections.abc import Sequence
from functools import cached_property

import msgspec

from wenmai.grounding.claims.numerals import fold_width
from wenmai.grounding.wording.words import FUNCTION, UNKNOWN, Word, load_words, stem
from wenmai.text.cjk import CJK
from wenmai.text.folding import fold
from wenmai.text.patterns import word_list

_LETTERS = r"[a-zà-ɏ]"
_PIECE = re.compile(
    rf"(?P<han>[{CJK}]+)|(?P<latin>{_LETTERS}+(?:['’-]{_LETTERS}+)*)|(?P<digits>\d+(?:[.:,/-]\d+)*)|(?P<other>\S)"
)
_BREAK = re.compile(r"[，,；;：:。！？!?…—()（）\n]|\.(?=\s|$)| [-–] ")
_LATIN = 2
"""Weight of an English word, of which one holds about as much as two Chinese characters."""

_ENDS_SCOPE = frozenset(
    word_list(
        """
        而 而是 但 但是 却 的 就 才 则 便 时 就是 除 except
        but while when if becaus as unless until befor after so that which who
        """
    )
)
"""Words after which a negation before them governs nothing more."""

_OF_A_PHRASE = frozenset({"without", "neither", "nor", "rather than", "instead of"})
_OF_A_VERB = frozenset({"not", "never", "no long", "without"})
_MODALS = frozenset({"may", "must", "can", "should", "will", "shall"})
"""Words after which a negation of a phrase governs nothing more."""

_FINITE = _MODALS | {"be", "have", "do", "would", "could"}
"""Words that begin another predicate: clocks not collected within a week are sold."""

_ATTRIBUTIVE = "的"
_COMPLEMENTS = frozenset("回来去住到着了起完下上出动得过进成开掉")
"""Characters after 不 in 撤不回来, which negates the verb before it."""


class Token(msgspec.Struct, frozen=True):
    """A word, or one Chinese character of an unknown word.

    Attributes:
        form: how it is compared: a Chinese word or character, an English stem, digits.
        negated: whether an odd number of negations governs it.
        weight: its share in a text: characters of Chinese, two for an English word; none for a function word or value.
        own_weight: the same, for a value too.
    """

    form: str
    start: int
    end: int
    clause: int
    word: Word
    negated: bool
    han: bool
    weight: int
    own_weight: int


class Span(tuple[Token, ...]):  # noqa: SLOT001 — its properties are computed once
    """Adjacent tokens, such as a clause."""

    @cached_property
    def weight(self) -> int:
        """Weight of its content."""
        return sum([token.weight for token in self])

    @cached_property
    def forms(self) -> frozenset[str]:
        """The forms of its tokens."""
        return frozenset([token.form for token in self])

    @cached_property
    def concepts(self) -> frozenset[int]:
        """The concepts of its tokens."""
        return frozenset().union(*[token.word.concepts for token in self])

    @cached_property
    def negates(self) -> bool:
        """Whether one of its tokens negates."""
        return any(token.word.negates for token in self)

    @cached_property
    def sides(self) -> frozenset[int]:
        """The sides of oppositions of its tokens."""
        return frozenset().union(*[token.word.sides for token in self])

    @cached_property
    def text(self) -> str:
        """Its forms, joined."""
        return " ".join([token.form for token in self])


class Content:
    """The tokens of a text; offsets count in the text as given.

    Args:
        text: verbatim.
        values: spans of values, which are compared elsewhere and so are no content.
    """

    def __init__(self, text: str, values: Sequence[tuple[int, int]] = ()) -> None:
        self.text = text
        self.folded = fold_text(text)
        self._values = values

    @cached_property
    def tokens(self) -> Span:
        """Its tokens, in order."""
        return Span(_tokens(self.folded, self._values))

    @cached_property
    def words(self) -> frozenset[str]:
        """The forms of its content."""
        return frozenset(token.form for token in self.tokens if token.weight)

    @cached_property
    def clauses(self) -> tuple[Span, ...]:
        """The tokens of each clause that has any."""
        found: list[list[Token]] = []
        clause = -1
        for token in self.tokens:
            if token.clause != clause and not (found and _is_list_item(found[-1])):
                found.append([])
            clause = token.clause
            found[-1].append(token)
        return tuple(map(Span, found))


def _is_list_item(tokens: Sequence[Token]) -> bool:
    """Whether the English words before a comma are the item of a list."""
    return not any(token.han for token in tokens) and sum(token.weight for token in tokens) == _LATIN


def fold_text(text: str) -> str:
    """The text in lower case, half width and simplified characters; the length stays the same."""
    folded = fold(fold_width(text))
    lowered = folded.lower()
    return lowered if len(lowered) == len(text) else "".join(c.lower() if len(c.lower()) == 1 else c for c in folded)


def _tokens(text: str, values: Sequence[tuple[int, int]]) -> list[Token]:
    found: list[Token] = []
    breaks = [match.start() for match in _BREAK.finditer(text)]
    spans = iter([*values, (len(text) + 1, len(text) + 1)])
    first, last = next(spans)
    clause = 0
    negated = of_a_phrase = of_a_verb = governed = False
    for form, start, end, word, han in _words(text):
        while clause < len(breaks) and breaks[clause] < start:
            clause += 1
            negated = False
        while last <= start:
            first, last = next(spans)
        weight = own_weight = (len(form) if han else _LATIN) if word.content else 0
        if start < last and end > first:
            word, weight = FUNCTION, 0  # noqa: PLW2901 — a value is compared elsewhere
        if not negated and not word.negates:
            found.append(Token(form, start, end, clause, word, False, han, weight, own_weight))
            continue
        if word.negates:
            of_a_phrase, of_a_verb, governed = form in _OF_A_PHRASE, form in _OF_A_VERB, False
        if (form in _ENDS_SCOPE and not _ends_clause(text, end, form)) or (
            (of_a_phrase and form in _MODALS) or (of_a_verb and governed and form in _FINITE)
        ):
            negated = False
        governed = governed or (negated and weight > 0)
        found.append(Token(form, start, end, clause, word, negated != word.negates, han, weight, own_weight))
        negated = negated != word.negates
        if form == "不" and text[end : end + 1] in _COMPLEMENTS and len(found) > 1 and found[-2].end == start:
            found[-2] = msgspec.structs.replace(found[-2], negated=not found[-2].negated)
    return _with_negated_subjects(found)


def _with_negated_subjects(tokens: list[Token]) -> list[Token]:
    """The tokens; where a negation governs nothing with content, what stands before it in the clause is negated."""
    for index, token in enumerate(tokens):
        if not token.word.negates or not token.negated:
            continue
        after = index + 1
        while after < len(tokens) and tokens[after].negated and tokens[after].clause == token.clause:
            if tokens[after].weight:
                break
            after += 1
        else:
            _negate_before(tokens, index)
    return tokens


def _negate_before(tokens: list[Token], index: int) -> None:
    for place in range(index - 1, -1, -1):
        if tokens[place].clause != tokens[index].clause or tokens[place].word.negates:
            return
        tokens[place] = msgspec.structs.replace(tokens[place], negated=True)


def _ends_clause(text: str, end: int, form: str) -> bool:
    """Whether 的 is the last word of its clause, as in 不是他建的."""
    return form == _ATTRIBUTIVE and (end == len(text) or _BREAK.match(text, end) is not None)


def _words(text: str) -> list[tuple[str, int, int, Word, bool]]:
    found: list[tuple[str, int, int, Word, bool]] = []
    latin: list[tuple[str, int, int]] = []
    for match in _PIECE.finditer(text):
        if match["latin"]:
            latin.append((stem(match[0]), *match.span()))
            continue
        if latin:
            found += _english(latin)
            latin = []
        if match["han"]:
            found += _chinese(match[0], match.start())
        elif match["digits"]:
            found.append((match[0], *match.span(), UNKNOWN, False))
    if latin:
        found += _english(latin)
    return found


def _chinese(run: str, offset: int) -> list[tuple[str, int, int, Word, bool]]:
    """The longest known words from left to right; an unknown character stands alone."""
    loaded = load_words()
    known, beginnings = loaded.known, loaded.beginnings
    found = []
    start, length = 0, len(run)
    while start < length:
        form = run[start]
        stop = start + 2
        while stop <= length and (longer := run[start:stop]) in beginnings:
            if longer in known:
                form = longer
            stop += 1
        end = start + len(form)
        found.append((form, offset + start, offset + end, known.get(form, UNKNOWN), True))
        start = end
    return found


def _english(words: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int, Word, bool]]:
    """Phrases of the files, else single words."""
    loaded = load_words()
    found = []
    index = 0
    while index < len(words):
        form, start, _ = words[index]
        for length in range(min(loaded.phrases.get(form, 1), len(words) - index), 0, -1):
            phrase = " ".join(each[0] for each in words[index : index + length])
            word = loaded.known.get(phrase)
            if word is not None or length == 1:
                found.append((phrase, start, words[index + length - 1][2], word or UNKNOWN, False))
                index += length
                break
    return found
