"""Lines of a text that comes in pieces, broken between words and not inside them."""

import re

from rich.cells import cell_len

from wenmai.text.cjk import CJK

_PART = re.compile(rf"\n|[^\S\n]+|[{CJK}][，。、；：！？）》」』”’…,.;:!?)]*|[^\s{CJK}]+")
"""A line break, blanks, a character of Chinese with the marks that stay with it, or a word."""


class Wrapping:
    """Wraps a text as it comes; a word is shown when it is whole.

    Args:
        width: cells of a line.
        used: cells of the first line that are taken.
    """

    def __init__(self, width: int, *, used: int) -> None:
        self._width = width
        self._column = used
        self._blank = ""
        self._waiting = ""

    def add(self, piece: str) -> str:
        """What may be shown with this piece."""
        *whole, self._waiting = _PART.findall(self._waiting + piece) or [""]
        return "".join(map(self._placed, whole))

    def end(self) -> str:
        """What is left."""
        last, self._waiting = self._placed(self._waiting), ""
        return last

    def _placed(self, part: str) -> str:
        if part == "\n":
            self._column, self._blank = 0, ""
            return part
        if not part.strip():
            self._blank += part
            return ""
        length = cell_len(part)
        blank, self._blank = self._blank, ""
        if self._column and self._column + cell_len(blank) + length > self._width:
            self._column = length
            return "\n" + part
        self._column += cell_len(blank) + length
        return blank + part
