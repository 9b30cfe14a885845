"""Line wrapping of streamed text, between words."""

import re

from rich.cells import cell_len

from wenmai.text.cjk import CJK

_PART = re.compile(rf"\n|[^\S\n]+|[{CJK}][，。、；：！？）》」』”’…,.;:!?)]*|[^\s{CJK}]+")
"""A line break, whitespace, a Chinese character with its trailing punctuation, or a word."""


class LineWrapper:
    """Wraps streamed text; a word is returned when it is complete.

    Args:
        width: line width in terminal cells.
        used: cells already used on the first line.
    """

    def __init__(self, width: int, *, used: int) -> None:
        self._width = width
        self._column = used
        self._blank = ""
        self._pending = ""

    def add(self, chunk: str) -> str:
        """The text that can be printed after this chunk."""
        *complete, self._pending = _PART.findall(self._pending + chunk) or [""]
        return "".join(map(self._place, complete))

    def end(self) -> str:
        """The remaining text."""
        last, self._pending = self._place(self._pending), ""
        return last

    def _place(self, part: str) -> str:
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
