"""Analysed segments of a text (sentences and clauses): claims, events and entities, each computed once."""

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise

from wenmai.grounding.claims.claim import Claim
from wenmai.grounding.claims.counts import ordinals
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.text.cjk import has_cjk, terms

_CLAUSE = re.compile(r"[^，,；;：:。！？!?]+")
_LINK_ZH = re.compile(r"^(?:[的前后旁边里中内外侧东西南北上下口脚头]|附近|对面)")
_LINK_EN = re.compile(
    r"(?i)^\W*(?:in|near|beside|of|by|at|behind|before|opposite|next|outside|inside|across|under|"
    r"above|on|to)\b[^,]{0,24}$"
)


class Segment:
    """A sentence or clause; each property is computed on first access and cached.

    Args:
        text: verbatim.
        start: its offset in the sentence it is a clause of.
        lexicon: the words of its field.
    """

    def __init__(self, text: str, start: int = 0, *, lexicon: Lexicon = EMPTY) -> None:
        self.text = text
        self.start = start
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

    @cached_property
    def events(self) -> frozenset[str]:
        """The events that it mentions; a rebuilding is no building."""
        return frozenset(_events(self.text, self.lexicon))

    @cached_property
    def heads(self) -> tuple[tuple[str, int, int], ...]:
        """The entities that it is about, with offsets: the last in 塔前的灯, the first in ``the lamp by the tower``."""
        return tuple(_heads(self.text, self.lexicon))

    @cached_property
    def entities(self) -> frozenset[str]:
        """The entities that it is about."""
        return frozenset(name for name, _, _ in self.heads)

    @cached_property
    def clauses(self) -> tuple["Segment", ...]:
        """Its clauses, without punctuation."""
        return tuple(Segment(match[0], match.start(), lexicon=self.lexicon) for match in _CLAUSE.finditer(self.text))

    def clause_of(self, claim: Claim) -> "Segment":
        """The clause that contains a claim of this sentence."""
        index = bisect_right(self._clause_starts, claim.start) - 1
        clause = self.clauses[index] if index >= 0 else self
        return clause if claim.start < clause.start + len(clause.text) else self

    def heads_in(self, claim: Claim) -> tuple[tuple[str, int, int], ...]:
        """Its entities that begin within one of its claims."""
        first, end = (bisect_left(self._head_starts, offset) for offset in (claim.start, claim.end))
        return self.heads[first:end]

    @cached_property
    def _clause_starts(self) -> list[int]:
        return [clause.start for clause in self.clauses]

    @cached_property
    def _head_starts(self) -> list[int]:
        return [start for _, start, _ in self.heads]


def _events(text: str, lexicon: Lexicon) -> list[str]:
    found: list[str] = []
    for name, pattern in lexicon.events.items():
        if pattern.search(text):
            text = pattern.sub(lambda match: "\x00" * len(match[0]), text)
            found.append(name)
    return found


def _heads(text: str, lexicon: Lexicon) -> list[tuple[str, int, int]]:
    found = [(str(match.lastgroup), *match.span()) for match in lexicon.entities.finditer(text)]
    dropped: set[int] = set()
    chinese = has_cjk(text)
    for index, ((_, _, end), (_, start, _)) in enumerate(pairwise(found)):
        between = text[end:start]
        if chinese and (not between or _LINK_ZH.match(between)):
            dropped.add(index)
        elif not chinese and _LINK_EN.match(between):
            dropped.add(index + 1)
    return [head for index, head in enumerate(found) if index not in dropped]
