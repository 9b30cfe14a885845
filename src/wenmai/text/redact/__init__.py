"""Redaction of private values: e-mail addresses, telephone numbers, cards, ids, addresses, keys and secrets.

Pure functions over texts, in linear time. See ``docs/explanation/privacy.md``.
"""

from functools import cache

from wenmai.text.redact.redactor import ExtraRule, Redactor
from wenmai.text.redact.rule import Kind, Span

__all__ = ["ExtraRule", "Kind", "Redactor", "Span", "find", "redact"]


@cache
def _default() -> Redactor:
    return Redactor()


def find(text: str) -> list[Span]:
    """The private values of a text by the built-in rules; see :meth:`Redactor.find`."""
    return _default().find(text)


def redact(text: str) -> str:
    """The text without private values, by the built-in rules; see :meth:`Redactor.redact`."""
    return _default().redact(text)
