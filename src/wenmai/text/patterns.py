"""Parses word lists written as text into lists, alternations and dictionaries; patterns of words given as data."""

import re
from collections.abc import Iterable

NEVER = "(?!)"
"""A regular expression that matches nothing, for an empty list of words."""


def word_list(text: str) -> list[str]:
    """The words of a text, split at white space."""
    return text.split()


def any_of(text: str) -> str:
    """A regular expression that matches any of the words of a text, tried in order.

    A word may itself be an expression; an underscore in it stands for a blank.
    """
    return "|".join(word.replace("_", " ") for word in text.split())


def pairs(text: str) -> dict[str, str]:
    """A dictionary written as ``key=value key=value``; an underscore stands for a blank."""
    split = (word.replace("_", " ").partition("=") for word in text.split())
    return {key: value for key, _, value in split}


def word_pattern(word: str) -> str:
    """The regular expression of a word of a lexicon.

    A Latin word matches whole words only, with ``*`` at its end any ending; a Chinese one matches anywhere. A word
    between slashes is a regular expression itself.
    """
    if len(word) > len("//") and word[0] == word[-1] == "/":
        return word[1:-1]
    stem = word.removesuffix("*")
    pattern = re.escape(stem)
    if not word[:1].isascii():
        return pattern
    return rf"\b{pattern}\w*" if stem != word else rf"\b{pattern}\b"


def any_word(words: Iterable[str], general: str = "") -> str:
    """A regular expression that matches any of the words, or the general one, which is tried first.

    Plain words are tried before expressions, Chinese ones first; see :func:`word_pattern`.
    """
    kinds: tuple[list[str], list[str], list[str]] = [], [], []
    for word in words:
        kinds[1 if word[0] == "/" else 2 if word.isascii() else 0].append(word)
    chinese, expressions, english = kinds
    whole = "|".join(re.escape(word) for word in english if not word.endswith("*"))
    parts = [general, *map(word_pattern, chinese), *map(word_pattern, expressions), rf"\b(?:{whole})\b" * bool(whole)]
    parts += [word_pattern(word) for word in english if word.endswith("*")]
    return "|".join(filter(None, parts)) or NEVER


def chinese(words: Iterable[str]) -> list[str]:
    """The words that are not in Latin letters."""
    return [word for word in words if not word.isascii()]


def english(words: Iterable[str]) -> list[str]:
    """The words in Latin letters."""
    return [word for word in words if word.isascii()]
