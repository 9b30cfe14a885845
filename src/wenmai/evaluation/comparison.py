"""Comparison of texts: equal but for case, width, traditional characters and white space next to Chinese."""

import re
from functools import lru_cache

from wenmai.text.cjk import CJK, normalise
from wenmai.text.folding import fold

_GAP = re.compile(rf"\s+(?=[{CJK}])|(?<=[{CJK}])\s+")
_SPACES = re.compile(r"\s+")
_MARK = re.compile(r" ?[\[【［]\d{1,3}[\]】］]")


@lru_cache(maxsize=4096)
def comparable(text: str) -> str:
    """The folded form of a text."""
    return _SPACES.sub(" ", _GAP.sub("", fold(normalise(text)))).strip()


def occurs(part: str, text: str) -> bool:
    """Whether a part occurs in a text; a number only as a whole: ``12`` is not in ``2012`` or ``12.5``."""
    pattern = re.escape(comparable(part))
    if part[:1].isdigit():
        pattern = rf"(?<!\d)(?<!\d[.,]){pattern}"
    if part[-1:].isdigit():
        pattern = rf"{pattern}(?!\d)(?![.,]\d)"
    return bool(pattern) and re.search(pattern, comparable(text)) is not None


def without_marks(text: str) -> str:
    """A text without citation marks such as ``[1]``."""
    return _MARK.sub("", text)
