"""Text from outside, freed of what no store, encoder or terminal can take."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_PAIR_BEGUN = re.compile("[\ud800-\udbff]\\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


class PieceCleaner:
    """Cleans a text that comes in pieces: no lone surrogates, no control characters but tab and line breaks.

    A character whose two surrogates come in two pieces is put together.
    """

    def __init__(self) -> None:
        self._begun = ""

    def add(self, piece: str) -> str:
        """The clean text that the piece completes."""
        piece = self._begun + piece
        begun = _PAIR_BEGUN.search(piece)
        self._begun = begun[0] if begun else ""
        return cleaned(piece[:-1] if begun else piece)


def cleaned(text: str) -> str:
    """The text without lone surrogates and without control characters but tab and line breaks."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return _CONTROLS.sub("", text)
