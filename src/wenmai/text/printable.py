"""Text from models and files without the characters that act on a terminal or reorder what is shown."""

import unicodedata

_UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SAFE_CHARACTERS = frozenset("\n\t\u200c\u200d")


def printable(text: str) -> str:
    """The text without control and format characters, except line breaks, tabs and joiners.

    So it sends no escape sequence to a terminal, hides nothing, and changes no direction of writing.
    """
    if text.isprintable():
        return text
    return "".join(
        character
        for character in text
        if character in _SAFE_CHARACTERS or unicodedata.category(character) not in _UNSAFE_CATEGORIES
    )
