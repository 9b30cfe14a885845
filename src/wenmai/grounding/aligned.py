"""Alignment: which sentences of the passages hold the content of a statement."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import attrgetter, itemgetter
from typing import NamedTuple

import msgspec

from wenmai.grounding.content import Content, Token
from wenmai.grounding.passage_index import IndexedPassage, index_passage
from wenmai.grounding.romanisation import romanised
from wenmai.grounding.types import Passage

_HALF = 0.5
"""Weight of a Chinese character that a sentence has in another word."""

_CANDIDATES = 4
_LEAST_GAIN = 0.01
_PASSAGES = 3
"""Passages whose windows are compared in detail."""

_NEAREST = 2
"""Passages that are compared at all for a statement, and for each of its clauses."""

_FURTHER = 0.2
"""How much less of the content than the best one they may hold."""

_LEAST = 5
"""Weight from which a clause may be from another passage than the rest."""


class Window(msgspec.Struct, frozen=True):
    """One or two sentences of a passage, with the share of a statement's content that they hold.

    Attributes:
        number: of the passage.
        sentences: their indices, best first.
        covered: for each token of the statement its weight as far as they hold it.
        held: the sum of these.
        total: weight of the statement's content.
    """

    number: int
    sentences: tuple[int, ...]
    covered: tuple[float, ...]
    held: float
    total: float

    @property
    def share(self) -> float:
        """The covered share; 1.0 for a statement without content."""
        return self.held / self.total if self.total else 1.0


class _Places(NamedTuple):
    """The sentences of a passage that hold a token, as bits; for a Chinese word also those that hold its characters."""

    weight: float
    whole: int
    parts: tuple[int, ...]


_NOWHERE = _Places(0.0, 0, ())


class Alignment:
    """The passages of one answer, indexed."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages: Mapping[int, IndexedPassage] = {
            passage.number: index_passage(passage.title, passage.text, passage.source_ref) for passage in passages
        }
        self.languages: Mapping[int, str] = {
            number: "zh" if passage.chinese else "en" for number, passage in self.passages.items()
        }
        self._holders: dict[str, list[int]] = {}

    def holders(self, token: Token) -> list[int]:
        """The passages that have a word with content in any sentence."""
        found = self._holders.get(token.form)
        if found is None:
            units = _units(token)
            found = [number for number, each in self.passages.items() if not each.units.keys().isdisjoint(units)]
            self._holders[token.form] = found
        return found

    def scores(self, content: Content, number: int) -> list[float]:
        """The share of a text that each sentence of a passage holds."""
        passage = self.passages[number]
        places = list(_find_places(content, passage).values())
        total = sum(each.weight for each in places) or 1.0
        return [score / total for score in _scores(places, len(passage.sentences) - 1)]


class AlignedContent:
    """A statement aligned to passages; the places of its tokens are looked up once.

    Attributes:
        numbers: the passages that hold as much as any other, of the statement or of one of its clauses.
    """

    def __init__(self, content: Content, alignment: Alignment, numbers: Sequence[int]) -> None:
        passages = {number: alignment.passages[number] for number in numbers}
        self.numbers = _nearest(content, alignment, numbers) if len(numbers) > 1 else list(numbers)
        self._passages = {number: passages[number] for number in self.numbers}
        self._places = {number: _find_places(content, passage) for number, passage in self._passages.items()}
        self._windows: dict[tuple[int, int, int], list[Window]] = {}

    def windows(self, tokens: Sequence[Token]) -> list[Window]:
        """The windows of the best passages for some of the tokens, best first."""
        if not tokens:
            return []
        key = tokens[0].start, tokens[-1].end, len(tokens)
        if key not in self._windows:
            scored = []
            for number, passage in self._passages.items():
                found = self._places[number]
                places = [found[token.start] for token in tokens]
                scores = _scores(places, len(passage.sentences) - 1)
                scored.append((max(scores, default=0.0), -number, places, scores))
            scored.sort(key=itemgetter(0, 1), reverse=True)
            windows = [_window(-number, places, scores) for _, number, places, scores in scored[:_PASSAGES]]
            windows.sort(key=attrgetter("held"), reverse=True)
            self._windows[key] = windows
        return self._windows[key]

    def is_mentioned(self, tokens: Sequence[Token], number: int) -> bool:
        """Whether a passage has any of some tokens, in whatever sentence."""
        return any(self._places[number][token.start].whole for token in tokens)

    def scores(self, tokens: Sequence[Token], number: int) -> list[float]:
        """The share of the content of some tokens that each sentence of a passage holds."""
        places = [self._places[number][token.start] for token in tokens if token.weight]
        total = sum(each.weight for each in places) or 1.0
        return [score / total for score in _scores(places, len(self._passages[number].sentences) - 1)]


def _nearest(content: Content, alignment: Alignment, numbers: Sequence[int]) -> list[int]:
    """The passages that may hold a statement best, by the words that they have in any sentence."""
    holders = {token.start: alignment.holders(token) for token in content.tokens if token.weight}
    chosen: set[int] = set()
    for tokens in (content.tokens, *[span for span in content.clauses if span.weight >= _LEAST]):
        held = dict.fromkeys(numbers, 0)
        for token in tokens:
            if token.weight:
                for number in holders[token.start]:
                    if number in held:
                        held[number] += token.weight
        least = max(held.values()) - _FURTHER * tokens.weight
        best = sorted(held, key=held.__getitem__, reverse=True)[:_NEAREST]
        chosen.update(number for number in best if held[number] >= least)
        if tokens is content.tokens and (held[best[0]] == tokens.weight or len(content.clauses) == 1):
            break
    return [number for number in numbers if number in chosen]


def _units(token: Token) -> list[str | int]:
    """What a passage that may hold a token has."""
    return [*token.word.concepts, *(token.form if token.han else [token.form])]


def _window(number: int, places: Sequence[_Places], scores: Sequence[float]) -> Window:
    total = sum([each.weight for each in places])
    order = sorted(range(len(scores)), key=scores.__getitem__, reverse=True)[:_CANDIDATES]
    first, *others = order or [0]
    best = scores[first] if order else 0.0
    chosen = tuple(order[:1])
    rest = [each for each in places if each.weight and not each.whole >> first & 1]
    whole = total - sum([each.weight for each in rest])
    for second in others:
        if best >= total or (best > 0 and scores[first] + scores[second] <= best + _LEAST_GAIN):
            break
        held = whole + sum(_held(rest, 1 << first | 1 << second))
        if held > best + _LEAST_GAIN:
            best, chosen = held, (first, second)
    covered = _held(places, sum([1 << index for index in chosen]))
    return Window(number, chosen, tuple(covered), best, total)


def _held(places: Sequence[_Places], sentences: int) -> list[float]:
    """The weight of each token as far as some sentences, as bits, hold it."""
    found = []
    for weight, whole, parts in places:
        held = weight
        if not whole & sentences:
            held = 0.0
            for part in parts:
                if part & sentences:
                    held += _HALF
        found.append(held)
    return found


def _scores(places: Sequence[_Places], count: int) -> list[float]:
    """The weight that each sentence holds, without the title and the source, which stand after them."""
    scores = [0.0] * count
    sentences = (1 << count) - 1
    for weight, whole, parts in places:
        if whole:
            for index in _ones(whole & sentences):
                scores[index] += weight
        for part in parts:
            if rest := part & ~whole & sentences:
                for index in _ones(rest):
                    scores[index] += _HALF
    return scores


@lru_cache(maxsize=512)
def _ones(bits: int) -> list[int]:
    """The places of the bits that are set; cached, since those of a word are counted for each clause."""
    return [place for place in range(bits.bit_length()) if bits >> place & 1]


def _find_places(content: Content, passage: IndexedPassage) -> dict[int, _Places]:
    """The places of each token, by its offset."""
    text = content.folded
    found = {token.start: _places(token, text, passage) for token in content.tokens}
    if not passage.chinese and any(token.han for token in content.tokens):
        for start, bits in _spelt(text, passage).items():
            if start in found and found[start].weight and not found[start].whole:
                found[start] = found[start]._replace(whole=bits)
    return found


def _spelt(text: str, passage: IndexedPassage) -> dict[int, int]:
    """The sentences in which the Chinese characters at each offset are spelt in Latin letters."""
    return {
        place: passage.latin[word]
        for word, start, end in romanised(text)
        if end - start > 1 and word in passage.latin
        for place in range(start, end)
    }


def _places(token: Token, text: str, passage: IndexedPassage) -> _Places:
    if not token.weight:
        return _NOWHERE
    get = passage.units.get
    whole = 0
    for concept in token.word.concepts:
        whole |= get(concept, 0)
    start, end = token.start, token.end
    if not token.han:
        whole |= get(token.form, 0)
        if not whole and passage.chinese and not token.word.concepts:
            whole = passage.romanised.get(text[start:end], 0)
        return _Places(float(token.weight), whole, ())
    if end - start == 1:
        part = get(text[start], 0)
        pairs = (get(text[start - 1 : end], 0) if start else 0) | get(text[start : end + 1], 0)
        return _Places(float(token.weight), whole | (pairs & part), (part,))
    literal = -1
    for index in range(start, end - 1):
        literal &= get(text[index : index + 2], 0)
    parts = tuple([get(char, 0) for char in text[start:end]])
    return _Places(float(token.weight), whole | literal, parts)
