"""The names of things: which ones callers may choose, and how ours are made."""

import re
import secrets

from wenmai.errors import InvalidInput

_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


def checked_id(field: str, value: str) -> str:
    """The value, if it may name a session, a persona or a message.

    Raises:
        InvalidInput: it has other characters than ``A-Za-z0-9_.:-``, or not 1 to 128 of them.
    """
    if not _ID.fullmatch(value):
        raise InvalidInput(field, value, "1 to 128 characters of A-Z a-z 0-9 _ . : -")
    return value


def new_session_id() -> str:
    """``session-`` and 16 hex digits."""
    return f"session-{secrets.token_hex(8)}"


def new_trace_id() -> str:
    """``trace-`` and 16 hex digits."""
    return f"trace-{secrets.token_hex(8)}"
