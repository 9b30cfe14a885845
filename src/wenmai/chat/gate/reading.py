"""What a text says, read once: claims, deeds and things, sentence by sentence and clause by clause."""

import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from itertools import pairwise

from wenmai.chat.gate.claim import Claim
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.counts import ordinals
from wenmai.chat.gate.vocabulary import DEEDS, THING
from wenmai.text.cjk import has_cjk, terms

_CLAUSE = re.compile(r"[^，,；;：:。！？!?]+")
_LINK_ZH = re.compile(r"^(?:[的前后旁边里中内外侧东西南北上下口脚头]|附近|对面)")
_LINK_EN = re.compile(
    r"(?i)^\W*(?:in|near|beside|of|by|at|behind|before|opposite|next|outside|inside|across|under|"
    r"above|on|to)\b[^,]{0,24}$"
)


class Piece:
    """A sentence or clause; each thing about it is worked out when first asked for, and kept.

    Args:
        text: verbatim.
        start: its offset in the sentence it is a clause of.
    """

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self.start = start

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Its claims, with offsets into it."""
        return tuple(find_claims(self.text))

    @cached_property
    def terms(self) -> frozenset[str]:
        """Its index terms."""
        return frozenset(terms(self.text))

    @cached_property
    def ordinals(self) -> frozenset[int]:
        """The places in a list that it names."""
        return frozenset(ordinals(self.text))

    @cached_property
    def deeds(self) -> frozenset[str]:
        """What it says is done or happens; a rebuilding is no building."""
        return frozenset(_deeds(self.text))

    @cached_property
    def heads(self) -> tuple[tuple[str, int, int], ...]:
        """The things it is about and where: 桥 in 祠堂前的桥, the first in ``the bridge by the hall``."""
        return tuple(_heads(self.text))

    @cached_property
    def things(self) -> frozenset[str]:
        """The things it is about."""
        return frozenset(name for name, _, _ in self.heads)

    @cached_property
    def clauses(self) -> tuple["Piece", ...]:
        """Its clauses, their punctuation left out."""
        return tuple(Piece(match[0], match.start()) for match in _CLAUSE.finditer(self.text))

    def clause_of(self, claim: Claim) -> "Piece":
        """The clause that a claim of this sentence stands in."""
        place = bisect_right(self._clause_starts, claim.start) - 1
        clause = self.clauses[place] if place >= 0 else self
        return clause if claim.start < clause.start + len(clause.text) else self

    def heads_in(self, claim: Claim) -> tuple[tuple[str, int, int], ...]:
        """The things it is about that begin within a claim of it."""
        first, end = (bisect_left(self._head_starts, offset) for offset in (claim.start, claim.end))
        return self.heads[first:end]

    @cached_property
    def _clause_starts(self) -> list[int]:
        return [clause.start for clause in self.clauses]

    @cached_property
    def _head_starts(self) -> list[int]:
        return [start for _, start, _ in self.heads]


def _deeds(text: str) -> list[str]:
    found: list[str] = []
    for name, pattern in DEEDS.items():
        if pattern.search(text):
            text = pattern.sub(lambda match: "\x00" * len(match[0]), text)
            found.append(name)
    return found


def _heads(text: str) -> list[tuple[str, int, int]]:
    found = [(str(match.lastgroup), *match.span()) for match in THING.finditer(text)]
    dropped: set[int] = set()
    chinese = has_cjk(text)
    for index, ((_, _, end), (_, start, _)) in enumerate(pairwise(found)):
        between = text[end:start]
        if chinese and (not between or _LINK_ZH.match(between)):
            dropped.add(index)
        elif not chinese and _LINK_EN.match(between):
            dropped.add(index + 1)
    return [head for index, head in enumerate(found) if index not in dropped]
