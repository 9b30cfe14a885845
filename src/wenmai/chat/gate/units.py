"""The units in which an answer is checked: its sentences, found while it comes in, however its pieces are cut.

A unit ends where a sentence does, but not inside a title. A sentence that does not end is cut, so that the work is
linear in the text and what waits is bounded. The units depend on the text alone.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wenmai.chat.gate.claims import find_claims
from wenmai.text.cjk import sentence_end

LONGEST = 1000
"""Characters of a unit."""

_TITLE = 82
"""Characters that a title with its marks can have."""

_AHEAD = LONGEST + 100
"""Characters that are waited for before a sentence is cut: with them every end within the first 1000 is certain."""

_TITLE_BEGUN = re.compile(r"(?:(?P<book>《)[^《》\n]{0,60}|[\"“][A-Z][^\"“”\n]{0,80})\Z")
_BOOK_GOES_ON = re.compile(r"[^《》\n]*+")
_QUOTE_GOES_ON = re.compile(r"[^\"“”\n]*+")
_PAUSE = re.compile(r"[，,；;：:、\s]")


class Unit(NamedTuple):
    """A slice of the answer with the blanks around it; ``whole`` if a sentence ends with it."""

    text: str
    whole: bool


class Units:
    """Divides a text that comes in pieces; the units put together are the text."""

    def __init__(self) -> None:
        self._waiting = ""
        self._scanned = 0

    def add(self, piece: str) -> Iterator[Unit]:
        """The units that are certain with this piece."""
        self._waiting += piece
        return self._take(ended=False)

    def end(self) -> Iterator[Unit]:
        """What is left, when no more comes."""
        yield from self._take(ended=True)
        if self._waiting:
            yield Unit(self._waiting, whole=False)
            self._waiting = ""

    def _take(self, *, ended: bool) -> Iterator[Unit]:
        position = 0
        text = self._waiting
        try:
            while True:
                cut = self._next(text[position : position + 2 * _AHEAD], ended=ended)
                if cut is None:
                    return
                end, whole = cut
                yield Unit(text[position : position + end], whole)
                position += end
                self._scanned = 0
        finally:
            self._waiting = text[position:]

    def _next(self, text: str, *, ended: bool) -> tuple[int, bool] | None:
        """Where the unit at the beginning of the text ends; None if that is not certain yet."""
        while found := sentence_end(text, 0, self._scanned):
            begin, end = found
            if end > LONGEST:
                break
            inside = False if end == len(text) and ended else _in_title(text, end, ended=ended)
            if inside is None:
                self._scanned = begin
                return None
            if not inside:
                return end, True
            self._scanned = end
        if len(text) > _AHEAD or (found and ended):
            return _cut(text[:_AHEAD]), False
        self._scanned = found[0] if found else len(text)
        return None


def _in_title(text: str, end: int, *, ended: bool) -> bool | None:
    """Whether a sentence's end lies within a title; None if more text is needed to say so."""
    if end == len(text) and not ended:
        return None
    begun = _TITLE_BEGUN.search(text[max(0, end - _TITLE) : end])
    if begun is None:
        return False
    rest = text[end : end + _TITLE]
    goes_on = (_BOOK_GOES_ON if begun["book"] else _QUOTE_GOES_ON).match(rest)
    assert goes_on is not None  # noqa: S101 — it matches the empty text too
    if goes_on.end() < len(rest):
        return rest[goes_on.end()] in ("》" if begun["book"] else '"”')
    return False if ended or len(rest) == _TITLE else None


def _cut(text: str) -> int:
    """Where to cut a sentence that is too long: at its last pause, outside of every claim."""
    claims = find_claims(text)
    pauses = [match.end() for match in _PAUSE.finditer(text, LONGEST // 2, LONGEST)]
    for cut in reversed(pauses):
        if not any(claim.start < cut < claim.end for claim in claims):
            return cut
    across = next((claim for claim in claims if claim.start < LONGEST < claim.end), None)
    return across.start if across and across.start else LONGEST
