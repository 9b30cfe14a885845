"""Templates of session ids, such as ``sess_{user}_{seconds}_{hex4}``."""

import re
import secrets
from datetime import datetime

SESSION_IDS = "session-{hex16}"
"""The default template."""

ID_TEMPLATE = r"^(?=.*\{hex(4|8|16)\})([A-Za-z0-9_.:-]|\{(user|seconds|hex(4|8|16))\}){1,64}\Z"
"""Characters of ids and the fields of :func:`new_id`; random digits are required."""

TEMPLATE_RULE = "1 to 64 characters of A-Z a-z 0-9 _ . : -, {user}, {seconds}, and one of {hex4}, {hex8}, {hex16}"
"""What :data:`ID_TEMPLATE` says, in words."""

_FIELD = re.compile(r"\{(?:(user)|(seconds)|hex(\d+))\}")
_NOT_IN_IDS = re.compile(r"[^A-Za-z0-9_.:-]")
_USER_CHARACTERS = 32


def new_id(template: str, user_id: str, now: datetime) -> str:
    """An id by the template; others of the same user and second differ only in the random digits.

    Args:
        template: with ``{user}``, ``{seconds}`` (Unix time), and ``{hex4}``, ``{hex8}`` or ``{hex16}`` (random digits).
        user_id: its first 32 characters are used; those that ids cannot have become ``-``.
        now: the time.
    """

    def filled(field: re.Match[str]) -> str:
        if field[3]:
            return secrets.token_hex(int(field[3]) // 2)
        return _NOT_IN_IDS.sub("-", user_id)[:_USER_CHARACTERS] if field[1] else str(int(now.timestamp()))

    return _FIELD.sub(filled, template)
