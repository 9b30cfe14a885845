"""Text as the rules read it: compatibility forms folded, invisible characters removed, offsets kept."""

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Any

import re2

FILLER = "_\x1a_"
"""Stands for a placeholder: shorter than any redacted value, bounded on neither side, in no label and no value."""

STOP = 0x1A
"""The byte of the filler by which it is recognised."""

_SKIPPED = re.compile(
    "\\[REDACTED_[A-Z][A-Z0-9_]*\\]"
    "|[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u206f"
    "\ufe00-\ufe0f\ufeff\U000e0000-\U000e01ef]+"
)
"""Placeholders, and characters that are invisible: zero-width, bidirectional marks, selectors."""

_BLANKS = [0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000]
_HYPHENS = [*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63]
_QUOTES = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "「": '"', "」": '"', "『": '"', "』": '"'}
_DIGITS = (
    *(0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66, 0x0E50, 0x0ED0),
    *(0x0F20, 0x1040, 0x17E0, 0x1810),
)
"""The zeros of decimal digits that have no compatibility form."""


@cache
def _table() -> dict[int, str]:
    """Characters that stand for one ASCII character, by NFKC or as a blank, hyphen, quotation mark or digit."""
    table = {ord(quote): plain for quote, plain in _QUOTES.items()}
    table |= dict.fromkeys(_BLANKS, " ") | dict.fromkeys(_HYPHENS, "-")
    table |= {zero + value: str(value) for zero in _DIGITS for value in range(10)}
    for code in (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800), *range(0x1FBF0, 0x1FBFA)):
        plain = unicodedata.normalize("NFKC", chr(code))
        if len(plain) == 1 and plain.isascii():
            table[code] = plain
    return table


_PUNCTUATION = {mark: chr(ord(mark) - 0xFEE0) for mark in "！＂＃＇（），－．／：；＝？＠［］＿｛｝"}
"""Full-width punctuation, which most Chinese texts have; replaced one by one, that takes a tenth of the time."""


@cache
def _others() -> Any:
    """A character of the table besides the usual punctuation."""
    others = (chr(code) for code in _table() if chr(code) not in _PUNCTUATION)
    return re2.compile(f"[{''.join(map(re.escape, others))}]")


_MAYBE_SKIPPED = re2.compile(_SKIPPED.pattern)


def _folded(text: str) -> bytes:
    if _others().search(text.encode()) is not None:
        return text.translate(_table()).encode()
    for mark, plain in _PUNCTUATION.items():
        text = text.replace(mark, plain)
    return text.encode()


class Folded:
    """A folded text.

    Attributes:
        data: the folded text in UTF-8.
        skipped: whether the text has placeholders or invisible characters.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._ascii = text.isascii()
        self.skipped: bool = "[REDACTED_" in text or not (self._ascii or _MAYBE_SKIPPED.search(text.encode()) is None)
        self._kept: list[tuple[int, int]] = [(0, 0)]
        folded = self._without_skipped() if self.skipped else text
        self.data: bytes = folded.encode() if self._ascii else _folded(folded)

    def _without_skipped(self) -> str:
        """The text with its placeholders shortened and without invisible characters.

        ``_kept`` gets for each piece its offset in this text, and in the given one.
        """
        pieces, length, last = [], 0, 0
        for match in _SKIPPED.finditer(self._text):
            start, end = match.span()
            placeholder = FILLER if match[0][0] == "[" else ""
            pieces += [self._text[last:start], placeholder]
            length += start - last + len(placeholder)
            self._kept.append((length, end))
            last = end
        return "".join([*pieces, self._text[last:]])

    def given(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The spans of the given text for spans of ``data``, which are ascending and do not overlap."""
        offsets = [offset for span in spans for offset in span]
        if not self._ascii:
            offsets = self._characters(offsets)
        if self.skipped:
            offsets = self._shifted(offsets)
        return list(zip(offsets[::2], offsets[1::2], strict=True))

    def _characters(self, offsets: list[int]) -> list[int]:
        found, characters = [], 0
        for before, offset in pairwise([0, *offsets]):
            characters += len(self.data[before:offset].decode())
            found.append(characters)
        return found

    def _shifted(self, offsets: list[int]) -> list[int]:
        """Offsets in the given text: a start after what is skipped there, an end before it."""
        found, piece = [], 0
        for index, offset in enumerate(offsets):
            # An end at the beginning of a piece belongs to the piece before it.
            reached = offset - index % 2
            while piece + 1 < len(self._kept) and self._kept[piece + 1][0] <= reached:
                piece += 1
            folded, given = self._kept[piece]
            found.append(given + offset - folded)
        return found
