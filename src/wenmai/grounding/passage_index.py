"""Passages, indexed: which of their sentences hold a word."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise

import msgspec

from wenmai.grounding.content import Content, Token
from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.grounding.romanisation import latin_words, romanised_words
from wenmai.text.cjk import CJK, has_cjk

_RUN = re.compile(f"[{CJK}]+")
_Unit = str | int


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
