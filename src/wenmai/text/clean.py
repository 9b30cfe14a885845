"""Cleans external text of characters that stores, encoders or terminals cannot handle."""

import re

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_HIGH_SURROGATE = re.compile("[\ud800-\udbff]\\Z")
_SURROGATE = re.compile("[\ud800-\udfff]")


class FragmentCleaner:
    """Cleans a streamed text: no lone surrogates, no control characters but tab and line breaks.

    A surrogate pair that is split across two fragments is joined.
    """

    def __init__(self) -> None:
        self._pending = ""

    def add(self, fragment: str) -> str:
        """The clean text up to the end of this fragment."""
        fragment = self._pending + fragment
        high = _HIGH_SURROGATE.search(fragment)
        self._pending = high[0] if high else ""
        return clean_text(fragment[:-1] if high else fragment)


def clean_text(text: str) -> str:
    """The text without lone surrogates and without control characters but tab and line breaks."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")
    return _CONTROLS.sub("", text)
