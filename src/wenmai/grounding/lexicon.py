"""Lexicon: the words by which questions and evidence are matched, general ones and those of a profile."""

import re
from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import TypeVar

import msgspec

from wenmai.config.lexicon import LexiconWords
from wenmai.text.patterns import NEVER, any_word


class Lexicon(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The words of a field, with their patterns; each is compiled once, by :func:`prepare` or on first use.

    It is compared by identity, so that it is a cheap key of a cache: make one for each profile.
    """

    words: LexiconWords = LexiconWords()

    @property
    def topics(self) -> list[str]:
        """Names and subjects of the evidence."""
        return self.words.topics

    @cached_property
    def synonyms(self) -> Sequence[tuple[re.Pattern[str], bool]]:
        """A pattern for each group of synonyms of the field, and whether it is of events."""
        groups = ((self.words.synonyms, False), (self.words.events, True))
        return [(_compile(any_word(words)), is_event) for named, is_event in groups for words in named.values()]

    @cached_property
    def entities(self) -> re.Pattern[str]:
        """Entities of the field; the name of the matching group is the kind."""
        return _compile(
            "|".join(f"(?P<{kind}>{any_word(words)})" for kind, words in self.words.entities.items()) or NEVER
        )


def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


EMPTY = Lexicon()
"""No words of a field."""

_Value = TypeVar("_Value")
_COMPUTED: list[Callable[[Lexicon], object]] = [attrgetter("synonyms", "entities")]


def once_per_lexicon(function: Callable[[Lexicon], _Value]) -> Callable[[Lexicon], _Value]:
    """Decorator: the function's value is computed once for each lexicon, by :func:`prepare` or on first use."""
    cached = lru_cache(maxsize=16)(function)
    _COMPUTED.append(cached)
    return cached


def prepare(lexicon: Lexicon) -> None:
    """Compile all patterns of a lexicon, which takes tens of milliseconds."""
    for compute in _COMPUTED:
        compute(lexicon)
