"""Parses word lists written as text into lists, alternations and dictionaries."""


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
