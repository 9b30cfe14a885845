"""Validation of arguments, shared by all backends."""

from collections.abc import Mapping, Sequence

from wenmai.errors import InvalidInput
from wenmai.stores.records import Record

MAX_KEY = 512
TEXT = "valid Unicode text"
MAX_KEYS = 500
"""Most keys of one ``get_many``."""

MAX_EXAMINED = 500
"""Most sessions that one page of an enumeration examines."""

MAX_DIGITS = 18
"""Of a cursor that is a number; it fits into 64 bits."""


def is_text(text: str) -> bool:
    """Whether the text can be encoded, that is, contains no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_text(field: str, text: object) -> None:
    """Refuse a value that is not text, or contains a lone surrogate.

    Raises:
        InvalidInput: naming ``field``.
    """
    if not isinstance(text, str) or not is_text(text):
        raise InvalidInput(field, text, TEXT)


def check_key(field: str, key: object) -> None:
    """Refuse a key that is not text of 1 to 512 characters without NUL.

    Raises:
        InvalidInput: naming ``field``.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY or "\0" in key or not is_text(key):
        raise InvalidInput(field, key, f"text of 1 to {MAX_KEY} characters without NUL")


def are_keys(values: Sequence[object]) -> bool:
    """Whether :func:`check_key` refuses none of the values; faster than it for many."""
    texts = [value for value in values if type(value) is str]
    joined = "".join(texts)
    sizes = set(map(len, texts))
    right = len(texts) == len(values) and all(1 <= size <= MAX_KEY for size in sizes)
    return right and "\0" not in joined and is_text(joined)


def cursor_number(cursor: str | None) -> int:
    """The number that a cursor of an enumeration is; 0 for the first page.

    Raises:
        InvalidInput: it is no such number.
    """
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) <= MAX_DIGITS):
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page")
    return int(cursor)


def check_range(field: str, number: object, least: int, most: int) -> None:
    """Refuse what is no integer, or one outside ``least`` to ``most``, both included.

    Raises:
        InvalidInput: naming ``field``.
    """
    if not isinstance(number, int) or not least <= number <= most:
        raise InvalidInput(field, number, f"a number from {least} to {most}")


def check_at_least(field: str, number: object, least: int, meaning: str = "") -> None:
    """Refuse what is no integer, or a smaller one; ``meaning`` explains the bound.

    Raises:
        InvalidInput: naming ``field``.
    """
    if not isinstance(number, int) or number < least:
        raise InvalidInput(field, number, f"at least {least}{meaning}")


def check_filters(of: type[Record], where: Mapping[str, str] | None) -> Mapping[str, str]:
    """The validated filters of a listing; empty if ``where`` is None.

    Raises:
        InvalidInput: the record type does not declare the field as a filter, or the value is not text.
    """
    for field, value in (where or {}).items():
        check_text(f"where.{field}", value)
        if field not in of.spec.filters:
            declared = ", ".join(of.spec.filters) or "none"
            raise InvalidInput(f"where.{field}", field, f"a declared filter of {of.__name__} ({declared})")
    return where or {}
