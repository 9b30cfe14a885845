"""Passages as they are compared with questions: their sentences and index terms."""

import re
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import msgspec

from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.text.cjk import normalise, terms
from wenmai.text.folding import fold

_CLAUSE = re.compile(r"[^,;:，；：]+[,;:，；：]?")


class Clause(NamedTuple):
    """Where a clause is in its sentence, and its text after that of the clause before it."""

    start: int
    end: int
    text: str


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a passage.

    Attributes:
        text: verbatim.
        folded: normalised, with simplified characters.
        terms: its index terms.
        clauses: of ``folded``.
    """

    text: str
    folded: str
    terms: frozenset[str]
    clauses: tuple[Clause, ...]


class PassageText(msgspec.Struct, frozen=True, kw_only=True):
    """A passage, analysed.

    Attributes:
        heading: the title, normalised, with simplified characters.
        title: its index terms.
        sentences: those that may be quoted, in order.
        terms: of title and text.
    """

    heading: str
    title: frozenset[str]
    sentences: tuple[Sentence, ...]
    terms: frozenset[str]


@lru_cache(maxsize=512)
def analyse(title: str, text: str) -> PassageText:
    """Split a passage into sentences and index terms."""
    found = tuple(map(_analysed, safe_sentences(text)))
    in_title = frozenset(terms(title))
    return PassageText(
        heading=fold(normalise(title)),
        title=in_title,
        sentences=found,
        terms=in_title.union(*(sentence.terms for sentence in found)),
    )


def _analysed(sentence: str) -> Sentence:
    folded = fold(normalise(sentence))
    clauses = list(_CLAUSE.finditer(folded))
    return Sentence(
        text=sentence,
        folded=folded,
        terms=frozenset(terms(sentence)),
        clauses=tuple(
            Clause(clause.start(), clause.end(), (previous[0] if previous else "") + clause[0])
            for previous, clause in pairwise([None, *clauses])
            if clause
        ),
    )
