"""A rule: a regular expression of RE2, and a check of each match."""

from collections.abc import Callable
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple

import re2

from wenmai.text.redact.folded import STOP

LABEL_BYTES = 60
"""How far before or after a value its label is searched for."""


class Kind(StrEnum):
    """What a redacted text was; the placeholder is ``[REDACTED_EMAIL]``."""

    EMAIL = "EMAIL"
    PHONE = "PHONE"
    CC = "CC"
    BANK_CARD = "BANK_CARD"
    SSN = "SSN"
    CN_ID = "CN_ID"
    PASSPORT = "PASSPORT"
    IBAN = "IBAN"
    IP = "IP"
    API_KEY = "API_KEY"
    SECRET = "SECRET"  # noqa: S105 — the name of a kind


class Span(NamedTuple):
    """A private value: offsets and kind."""

    start: int
    end: int
    kind: str


class Found:
    """A match of a rule in the folded text; its value is group 1.

    Attributes:
        data: the folded text.
        match: what RE2 found.
        start, end: of the value.
    """

    __slots__ = ("data", "end", "match", "start")

    def __init__(self, data: bytes, match: Any) -> None:
        self.data = data
        self.match = match
        self.start, self.end = match.span(1)

    @property
    def text(self) -> str:
        """The value."""
        return self.data[self.start : self.end].decode()

    @property
    def digits(self) -> str:
        """The digits of the value."""
        return "".join(filter(str.isdecimal, self.text))

    @property
    def left(self) -> bytes:
        """The byte before the value; a blank at the beginning of the text."""
        return self.data[self.start - 1 : self.start] or b" "

    @property
    def right(self) -> bytes:
        """The byte after the value; a blank at the end of the text."""
        return self.data[self.end : self.end + 1] or b" "

    def follows(self, pattern: str) -> bool:
        """Whether the text before the value ends with the pattern, within a label's length.

        Another redacted value is not looked beyond.
        """
        before = self.data[max(0, self.start - LABEL_BYTES) : self.start]
        return expression(rf"(?:{pattern})\z").search(before[before.rfind(STOP) + 1 :]) is not None

    def precedes(self, pattern: str) -> bool:
        """Whether the text after the value begins with the pattern, within a label's length."""
        return expression(pattern).match(self.data[self.end : self.end + LABEL_BYTES]) is not None

    def span(self, kind: str, start: int | None = None, end: int | None = None) -> Span:
        """The value, or a part of it, as a private one of that kind."""
        return Span(self.start if start is None else start, self.end if end is None else end, kind)


Check = Callable[[Found], Span | None]
"""The private value of a match; None if it is none."""


class Rule(NamedTuple):
    """A rule; group 1 of the pattern is the value.

    Attributes:
        check: of each match; without one every match is private.
        world: whether it matches only in texts that are not ASCII.
    """

    kind: str
    pattern: str
    check: Check | None = None
    world: bool = False


@cache
def expression(pattern: str) -> Any:
    """The compiled pattern."""
    options = re2.Options()
    options.log_errors = False
    return re2.compile(pattern, options)
