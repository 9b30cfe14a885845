"""The type of a claim; :mod:`wenmai.grounding.claims.extraction` extracts them."""

from enum import StrEnum

import msgspec


class ClaimKind(StrEnum):
    """Kinds of claims that can be looked up in evidence."""

    DATE = "date"
    YEAR = "year"
    REIGN = "reign"
    DYNASTY = "dynasty"
    NUMBER = "number"
    GENERATION = "generation"
    PERSON = "person"
    PLACE = "place"
    TITLE = "title"


TIMES = frozenset({ClaimKind.DATE, ClaimKind.YEAR, ClaimKind.REIGN, ClaimKind.DYNASTY})
"""The kinds that answer *when*."""

NAMES = frozenset({ClaimKind.PERSON, ClaimKind.PLACE, ClaimKind.TITLE})
"""The kinds that are compared as words."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """One checkable claim in a text.

    Attributes:
        text: as written.
        value: normalised, the same for every spelling: ``"1523"`` for 1523年, 一五二三年 and 嘉靖二年, ``"16c"``
            for a century, ``"1520s"`` for a decade, ``"05-05"`` for a day, ``"300 亩"`` for a count with its
            unit, ``"#3"`` for an ordinal.
        start: offset of its first character in the text as given.
        end: offset after its last character.
    """

    kind: ClaimKind
    text: str
    value: str
    start: int
    end: int
