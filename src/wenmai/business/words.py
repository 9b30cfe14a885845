"""The words of business rules, found in a text in linear time; a name with one wrong character is still found.

In a long name any character may be wrong, in a short one only by a character of the same sound.
"""

import unicodedata
from collections.abc import Iterator
from typing import Literal, NamedTuple

from wenmai.business.rules import BusinessRules
from wenmai.text.cjk import has_cjk, normalise
from wenmai.text.folding import fold
from wenmai.text.homophones import homophones
from wenmai.text.stopwords import STOP_ZH

Kind = Literal["intent", "domain", "object", "stage", "customer"]

MIN_TYPO_CJK, MIN_TYPO_LATIN = 4, 6
"""Characters from which a word is recognized with one of them wrong; shorter ones are too often other words."""
MIN_ALIKE = 2
"""Characters from which a word is recognized with one of the same sound in the place of another."""
MAX_TYPO_TEXT = 120
"""Characters up to which a text is searched for wrong spellings."""


MAX_MENTIONS = 64
"""Words that are looked for in a text; the others are ignored."""


class Mention(NamedTuple):
    """A word of the rules in a text."""

    start: int
    end: int
    kind: Kind
    name: str
    word: str


def plain(text: str) -> str:
    """The text as words are compared: normalised, with simplified characters."""
    return fold(normalise(text))


class RuleWords:
    """The words of business rules, prepared for searching."""

    def __init__(self, rules: BusinessRules) -> None:
        self._by_start: dict[str, list[tuple[str, Kind, str]]] = {}
        self._shortened: dict[str, set[tuple[str, str]]] = {}
        self._lengths: list[int] = []
        self._initials: set[str] = set()
        lengths: set[int] = set()
        self._alike: dict[str, list[tuple[Kind, str]]] = {}
        for kind, name, word in _words(rules):
            form = plain(word)
            self._by_start.setdefault(form[0], []).append((form, kind, name))
            if kind == "object" and len(form) >= (MIN_TYPO_CJK if has_cjk(form) else MIN_TYPO_LATIN):
                lengths |= {len(form) - 1, len(form), len(form) + 1}
                self._initials.add(form[0])
                for shorter in _shorter(form):
                    self._shortened.setdefault(shorter, set()).add((form, name))
            if kind in ("object", "stage") and MIN_ALIKE <= len(form) < MIN_TYPO_CJK and has_cjk(form):
                for alike in _alike(form):
                    self._alike.setdefault(alike, []).append((kind, name))
        self._lengths += sorted(lengths, reverse=True)
        for forms in self._by_start.values():
            forms.sort(key=lambda form: -len(form[0]))

    def find(self, text: str) -> list[Mention]:
        """The mentions in a :func:`plain` text, ascending; of each kind the longest, and none within another's."""
        found: list[Mention] = []
        ends: dict[str, int] = {}
        for start, character in enumerate(text):
            if len(found) >= MAX_MENTIONS:
                break
            for form, kind, name in self._by_start.get(character, ()):
                end = start + len(form)
                if start >= ends.get(kind, 0) and text.startswith(form, start) and _whole(text, start, end):
                    ends[kind] = end
                    found.append(Mention(start, end, kind, name, form))
        return _without_covered(found)

    def find_misspelt(self, text: str) -> list[Mention]:
        """Objects whose word stands in a :func:`plain` text with one character wrong, missing, added or swapped."""
        if len(text) > MAX_TYPO_TEXT:
            return []
        for start, end in self._windows(text):
            given = text[start:end]
            near = [
                (form, name)
                for key in (given, *_shorter(given))
                for form, name in self._shortened.get(key, ())
                if form[0] == given[0] and abs(len(form) - len(given)) <= 1 and _one_edit(form, given)
            ]
            if len({name for _, name in near}) == 1:
                return [Mention(start, end, "object", near[0][1], given)]
        return []

    def _windows(self, text: str) -> Iterator[tuple[int, int]]:
        """Where a misspelt word may stand, its first character right: Latin words, and stretches, longest first."""
        for start, character in enumerate(text):
            if character not in self._initials:
                continue
            for length in self._lengths:
                end = start + length
                if end <= len(text) and _whole(text, start, end):
                    yield start, end

    def find_alike(self, text: str) -> list[Mention]:
        """Short objects and stages in a :func:`plain` text with one character replaced by one of the same sound."""
        if len(text) > MAX_TYPO_TEXT:
            return []
        return [
            Mention(start, start + length, kind, name, text[start : start + length])
            for start in range(len(text))
            for length in range(MIN_ALIKE, MIN_TYPO_CJK)
            for kind, name in self._alike.get(text[start : start + length], ())
        ]


def _words(rules: BusinessRules) -> Iterator[tuple[Kind, str, str]]:
    for name, intent in rules.intents.items():
        yield from (("intent", name, word) for word in intent.words)
    for name, words in rules.domains.items():
        yield from (("domain", name, word) for word in words)
    for name, of in rules.objects.items():
        yield from (("object", name, word) for word in [name, *of.words])
    for name, words in rules.stages.items():
        yield from (("stage", name, word) for word in [name, *words])


def _whole(text: str, start: int, end: int) -> bool:
    """Whether a match is not part of a longer Latin word or number."""
    return not (_joins(text, start - 1, start) or _joins(text, end - 1, end))


def _joins(text: str, left: int, right: int) -> bool:
    return left >= 0 and right < len(text) and _is_latin(text[left]) and _is_latin(text[right])


def _is_latin(character: str) -> bool:
    return character.isalnum() and unicodedata.category(character) != "Lo"


def _without_covered(found: list[Mention]) -> list[Mention]:
    """Without an object or a stage that a longer mention of the other covers: 放款 within 放款申请."""
    kept: list[Mention] = []
    things: list[Mention] = []
    for mention in found:
        if mention.kind not in ("object", "stage"):
            kept.append(mention)
        elif not things or not _covers(things[-1], mention):
            if things and _covers(mention, things[-1]):
                kept.remove(things.pop())
            kept.append(mention)
            things.append(mention)
    return kept


def _covers(one: Mention, other: Mention) -> bool:
    inside = one.start <= other.start and other.end <= one.end
    return inside and one.kind != other.kind and one.end - one.start > other.end - other.start


def _shorter(word: str) -> Iterator[str]:
    """The word without each of its characters but the first."""
    return (word[:at] + word[at + 1 :] for at in range(1, len(word)))


def _alike(word: str) -> Iterator[str]:
    """The word with each of its characters replaced by others of the same sound that are no words themselves."""
    for at, character in enumerate(word):
        for other in homophones(character) - STOP_ZH:
            yield word[:at] + other + word[at + 1 :]


def _one_edit(word: str, given: str) -> bool:
    """Whether one character is replaced, missing, added or swapped with its neighbour."""
    common = 0
    while common < min(len(word), len(given)) and word[common] == given[common]:
        common += 1
    rest, other = word[common:], given[common:]
    swapped = rest[:2] == other[:2][::-1] and rest[2:] == other[2:]
    return rest != other and (rest[1:] == other[1:] or rest[1:] == other or rest == other[1:] or swapped)
