"""Ids: which ones callers may choose and how ours are made; and the name of an invalid field."""

import re
import secrets

import msgspec

from wenmai.errors import InvalidInput
from wenmai.scope import Scope

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_PATH = re.compile(r"`\$\.?([^`]*)`")
_FIELD = re.compile(r"field `([^`]*)`")


def checked_id(field: str, value: object) -> str:
    """The value, if it is a valid id of a session, a persona or a message.

    Raises:
        InvalidInput: it has other characters than ``A-Za-z0-9_.:-``, or not 1 to 128 of them.
    """
    if not isinstance(value, str) or not _ID.fullmatch(value):
        raise InvalidInput(field, value, "1 to 128 characters of A-Z a-z 0-9 _ . : -")
    return value


def checked_scope(scope: Scope | None) -> Scope:
    """The scope; the default one for None.

    Raises:
        InvalidInput: it is not a :class:`Scope`.
    """
    if scope is not None and not isinstance(scope, Scope):
        raise InvalidInput("scope", scope, "a wenmai.Scope")
    return scope or Scope()


def new_trace_id() -> str:
    """``trace-`` and 16 hex digits."""
    return f"trace-{secrets.token_hex(8)}"


def wrong_field(problem: msgspec.ValidationError) -> str:
    """The field that msgspec rejects, dotted for nested ones; empty if it is the whole value."""
    path, field = _PATH.search(str(problem)), _FIELD.search(str(problem))
    parts = [path[1].replace("[...]", "")] if path else []
    return ".".join([*parts, field[1]] if field else parts)
