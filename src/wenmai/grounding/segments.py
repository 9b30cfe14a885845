"""Analysed sentences: their claims, terms and list positions, each computed once."""

from functools import cached_property

from wenmai.grounding.claims.claim import Claim
from wenmai.grounding.claims.counts import ordinals
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.text.cjk import terms


class Segment:
    """A sentence; each property is computed on first access and cached.

    Args:
        text: verbatim.
        lexicon: the words of its field.
    """

    def __init__(self, text: str, *, lexicon: Lexicon = EMPTY) -> None:
        self.text = text
        self.lexicon = lexicon

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims, with offsets into it."""
        return tuple(find_claims(self.text, self.lexicon))

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its index terms."""
        return frozenset(terms(self.text))

    @cached_property
    def ordinals(self) -> frozenset[int]:
        """The list positions that it names."""
        return frozenset(ordinals(self.text))
