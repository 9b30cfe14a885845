"""Passages as they are compared with questions: their sentences and index terms."""

from functools import lru_cache

import msgspec

from wenmai.grounding.prompt_injection import safe_sentences
from wenmai.text.cjk import normalise, terms
from wenmai.text.folding import fold


class Sentence(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a passage.

    Attributes:
        text: verbatim.
        folded: normalised, with simplified characters.
        terms: its index terms.
    """

    text: str
    folded: str
    terms: frozenset[str]


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
    found = tuple(
        Sentence(text=sentence, folded=fold(normalise(sentence)), terms=frozenset(terms(sentence)))
        for sentence in safe_sentences(text)
    )
    in_title = frozenset(terms(title))
    return PassageText(
        heading=fold(normalise(title)),
        title=in_title,
        sentences=found,
        terms=in_title.union(*(sentence.terms for sentence in found)),
    )
