"""Texts of a profile that users read, in each language."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

Text = Annotated[dict[str, str], msgspec.Meta(min_length=1)]
"""A text by BCP 47 language subtag: ``zh``, ``en``."""

Phrases = Annotated[dict[str, list[str]], msgspec.Meta(min_length=1)]
"""Phrases by language; the turn number selects one, so that answers are reproducible."""


def in_language(texts: Mapping[str, Any], language: str) -> Any:
    """The entry for a BCP 47 tag: of the tag, its first subtag, Chinese, or else the first entry."""
    for tag in (language, language.partition("-")[0], "zh"):
        if tag in texts:
            return texts[tag]
    return next(iter(texts.values()))
