"""Splits a streamed answer into statements: its sentences, independent of how it is split into fragments.

A statement ends with a sentence, but never inside a title. An overlong sentence is cut, so that time is linear in the
text and the buffer is bounded. The statements depend on the text alone.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.text.cjk import sentence_end

LONGEST = 1000
"""Characters of a statement."""

_TITLE = 82
"""Characters of a title, quotation marks included."""

_LOOKAHEAD = LONGEST + 100
"""Characters buffered before a sentence is cut; with them every end within the first 1000 is certain."""

_OPEN_TITLE = re.compile(r"(?:(?P<book>《)[^《》\n]{0,60}|[\"“][A-Z][^\"“”\n]{0,80})\Z")
_BOOK_REST = re.compile(r"[^《》\n]*+")
_QUOTE_REST = re.compile(r"[^\"“”\n]*+")
_PAUSE = re.compile(r"[，,；;：:、\s]")


class Statement(NamedTuple):
    """A slice of the answer with the white space around it; ``complete`` if a sentence ends with it."""

    text: str
    complete: bool


class StatementSplitter:
    """Splits a streamed text; the statements joined are the text."""

    def __init__(self, lexicon: Lexicon = EMPTY) -> None:
        self._lexicon = lexicon
        self._buffer = ""
        self._scanned = 0

    def add(self, fragment: str) -> Iterator[Statement]:
        """The statements that are certain with this fragment."""
        self._buffer += fragment
        return self._take(ended=False)

    def end(self) -> Iterator[Statement]:
        """The rest, at the end of the stream."""
        yield from self._take(ended=True)
        if self._buffer:
            yield Statement(self._buffer, complete=False)
            self._buffer = ""

    def _take(self, *, ended: bool) -> Iterator[Statement]:
        position = 0
        text = self._buffer
        try:
            while True:
                cut = self._next(text[position : position + 2 * _LOOKAHEAD], ended=ended)
                if cut is None:
                    return
                end, complete = cut
                yield Statement(text[position : position + end], complete)
                position += end
                self._scanned = 0
        finally:
            self._buffer = text[position:]

    def _next(self, text: str, *, ended: bool) -> tuple[int, bool] | None:
        """Where the statement at the beginning of the text ends; None if that is not certain yet."""
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
        if len(text) > _LOOKAHEAD or (found and ended):
            return _cut(text[:_LOOKAHEAD], self._lexicon), False
        self._scanned = found[0] if found else len(text)
        return None


def _in_title(text: str, end: int, *, ended: bool) -> bool | None:
    """Whether a sentence's end lies within a title; None if more text is needed."""
    if end == len(text) and not ended:
        return None
    opened = _OPEN_TITLE.search(text[max(0, end - _TITLE) : end])
    if opened is None:
        return False
    rest = text[end : end + _TITLE]
    rest_of_title = (_BOOK_REST if opened["book"] else _QUOTE_REST).match(rest)
    assert rest_of_title is not None  # noqa: S101 — it matches the empty text too
    if rest_of_title.end() < len(rest):
        return rest[rest_of_title.end()] in ("》" if opened["book"] else '"”')
    return False if ended or len(rest) == _TITLE else None


def _cut(text: str, lexicon: Lexicon) -> int:
    """Where to cut an overlong sentence: at its last pause, outside of every claim."""
    claims = find_claims(text, lexicon)
    pauses = [match.end() for match in _PAUSE.finditer(text, LONGEST // 2, LONGEST)]
    for cut in reversed(pauses):
        if not any(claim.start < cut < claim.end for claim in claims):
            return cut
    spanning = next((claim for claim in claims if claim.start < LONGEST < claim.end), None)
    return spanning.start if spanning and spanning.start else LONGEST
