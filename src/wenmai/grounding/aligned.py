"""Alignment: which sentences of the passages hold the content of a statement, found by an inverted index."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

import msgspec

from wenmai.grounding.content import Content, Token
from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.romanisation import latin_words, romanised, romanised_words
from wenmai.grounding.types import Passage
from wenmai.text.cjk import CJK, has_cjk

_RUN = re.compile(f"[{CJK}]+")
_Unit = str | int
_HALF = 0.5
"""Weight of a Chinese character that a sentence has in another word."""


class IndexedPassage(msgspec.Struct, frozen=True, dict=True):
    """The sentences of a passage that may support something, with the places of their units.

    Attributes:
        sentences: in order; the title comes last and stands beside each of them.
        units: for each character, pair of characters, stem and concept the sentences that have it, as bits.
    """

    sentences: tuple[Content, ...]
    units: Mapping[_Unit, int]
    source: str
    chinese: bool

    @cached_property
    def folded(self) -> str:
        """Everything that it says, title and source included, folded."""
        return "\n".join([*(sentence.folded for sentence in self.sentences), self.source])

    @cached_property
    def clauses(self) -> frozenset[str]:
        """Its clauses as bare text."""
        return frozenset(bare_clause(sentence, tokens) for sentence in self.sentences for tokens in sentence.clauses)

    @cached_property
    def romanised(self) -> Mapping[str, int]:
        """The romanisations of its Chinese words."""
        return romanised_words(sentence.folded for sentence in self.sentences)

    @cached_property
    def latin(self) -> Mapping[str, int]:
        """Its words in Latin letters."""
        return latin_words(sentence.folded for sentence in self.sentences)


def bare_clause(content: Content, tokens: Sequence[Token]) -> str:
    """The folded text of a clause without white space."""
    return "".join(content.folded[tokens[0].start : tokens[-1].end].split())


class Window(msgspec.Struct, frozen=True):
    """One or two sentences of a passage, with the share of a statement's content that they hold.

    Attributes:
        number: of the passage.
        sentences: their indices, best first.
        covered: for each token of the statement its weight as far as they hold it.
        total: weight of the statement's content.
    """

    number: int
    sentences: tuple[int, ...]
    covered: tuple[float, ...]
    total: float

    @property
    def share(self) -> float:
        """The covered share; 1.0 for a statement without content."""
        return sum(self.covered) / self.total if self.total else 1.0


@lru_cache(maxsize=2048)
def index_passage(title: str, text: str, source_ref: str) -> IndexedPassage:
    """Index a passage; cached, since the same passages are retrieved again."""
    sentences = [Content(sentence) for sentence in safe_sentences(text)]
    units: defaultdict[_Unit, int] = defaultdict(int)
    for number, sentence in enumerate(sentences):
        for unit in _units(sentence):
            units[unit] |= 1 << number
    heading = Content(title)
    for unit in _units(heading):
        units[unit] |= (1 << len(sentences)) - 1
    return IndexedPassage((*sentences, heading), dict(units), Content(source_ref).folded, has_cjk(text))


def _units(content: Content) -> Iterable[_Unit]:
    for run in _RUN.findall(content.folded):
        yield from run
        yield from map("".join, pairwise(run))
    for token in content.tokens:
        if token.word.content:
            yield from token.word.concepts
        if not token.han:
            yield token.form
            yield from token.form.split()


class Alignment:
    """The passages of one answer, indexed."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages: Mapping[int, IndexedPassage] = {
            passage.number: index_passage(passage.title, passage.text, passage.source_ref) for passage in passages
        }
        self.languages: Mapping[int, str] = {
            number: "zh" if passage.chinese else "en" for number, passage in self.passages.items()
        }

    def best(self, tokens: Sequence[Token], text: str, numbers: Collection[int]) -> list[Window]:
        """The best window of each of these passages, best first.

        Args:
            tokens: of the statement.
            text: the folded text that they are offsets of.
            numbers: of the passages.
        """
        windows = [_window(number, self.passages[number], tokens, text) for number in numbers]
        return sorted(windows, key=lambda window: -sum(window.covered))

    def scores(self, tokens: Sequence[Token], text: str, number: int) -> list[float]:
        """The share of the content of these tokens that each sentence of a passage holds."""
        passage = self.passages[number]
        masks = _all_masks(tokens, text, passage)
        total = sum(token.weight for token in tokens) or 1
        return [
            sum(_covered(mask, token.weight, (index,)) for mask, token in zip(masks, tokens, strict=True)) / total
            for index in range(len(passage.sentences) - 1)
        ]


def _window(number: int, passage: IndexedPassage, tokens: Sequence[Token], text: str) -> Window:
    masks = _all_masks(tokens, text, passage)
    weights = [token.weight for token in tokens]
    count = len(passage.sentences) - 1
    scores = [0.0] * count
    for (whole, parts), weight in zip(masks, weights, strict=True):
        if not weight:
            continue
        for sentence in range(count):
            bit = 1 << sentence
            if whole & bit:
                scores[sentence] += weight
            else:
                scores[sentence] += sum(share for mask, share in parts if mask & bit)
    order = sorted(range(count), key=lambda sentence: -scores[sentence])[:4]
    best: tuple[float, tuple[int, ...], tuple[float, ...]] = (-1.0, (), (0.0,) * len(tokens))
    for second in order:
        chosen = (order[0],) if second == order[0] else (order[0], second)
        covered = tuple(_covered(mask, weight, chosen) for mask, weight in zip(masks, weights, strict=True))
        if sum(covered) > best[0] + 0.01:
            best = (sum(covered), chosen, covered)
    return Window(number, best[1], best[2], float(sum(weights)))


def _all_masks(
    tokens: Sequence[Token], text: str, passage: IndexedPassage
) -> list[tuple[int, list[tuple[int, float]]]]:
    masks = [_masks(token, text, passage.units) for token in tokens]
    if passage.chinese:
        for index, token in enumerate(tokens):
            if not token.han and token.weight and not token.word.concepts and not masks[index][0]:
                masks[index] = passage.romanised.get(text[token.start : token.end], 0), []
    elif any(token.han for token in tokens):
        spelt = {
            place: passage.latin[word]
            for word, start, end in romanised(text)
            if end - start > 1 and word in passage.latin
            for place in range(start, end)
        }
        for index, token in enumerate(tokens):
            if token.weight and not masks[index][0] and token.start in spelt:
                masks[index] = spelt[token.start], []
    return masks


def _covered(mask: tuple[int, list[tuple[int, float]]], weight: int, sentences: Sequence[int]) -> float:
    bits = sum(1 << sentence for sentence in sentences)
    whole, parts = mask
    if not weight:
        return 0.0
    return float(weight) if whole & bits else sum(share for part, share in parts if part & bits)


def _masks(token: Token, text: str, units: Mapping[_Unit, int]) -> tuple[int, list[tuple[int, float]]]:
    """The sentences that hold a token, and for each of its characters those that hold it in another word."""
    whole = 0
    if not token.weight:
        return 0, []
    for concept in token.word.concepts:
        whole |= units.get(concept, 0)
    if not token.han:
        return whole | units.get(token.form, 0), []
    start, end = token.start, token.end
    if end - start == 1:
        char = units.get(text[start], 0)
        pairs = units.get(text[start - 1 : end], 0) if start else 0
        pairs |= units.get(text[start : end + 1], 0)
        return whole | (pairs & char), [(char, _HALF)]
    literal = -1
    for index in range(start, end - 1):
        literal &= units.get(text[index : index + 2], 0)
    return whole | literal, [(units.get(char, 0), _HALF) for char in text[start:end]]
