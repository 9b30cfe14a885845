"""The text of an API key: ``wmk_``, 12 hexadecimal digits of its id, ``_``, 32 characters of secret, 6 of checksum.

The checksum tells a mistyped key from a wrong one without a look into the store, and the fixed form lets redaction and
secret scanners recognise a key that is written down where it should not be.
"""

import re
import secrets
import string
from typing import NamedTuple
from zlib import crc32

ID_BYTES = 6
SECRET_CHARACTERS = 32
"""190 bits, so that a stored digest cannot be reversed by trying."""

PREFIX = "wmk_"
"""Begins a key."""

_ALPHABET = string.digits + string.ascii_letters
_CHECK_CHARACTERS = 6
_KEY = re.compile(
    rf"({PREFIX}(?P<id>[0-9a-f]{{12}})_[0-9A-Za-z]{{{SECRET_CHARACTERS}}})(?P<check>[0-9A-Za-z]{{6}})", re.ASCII
)


class KeyText(NamedTuple):
    """A well-formed key: its id, and the whole text."""

    key_id: str
    text: str


def new_key() -> KeyText:
    """A new random key."""
    key_id = secrets.token_hex(ID_BYTES)
    secret = "".join(secrets.choice(_ALPHABET) for _ in range(SECRET_CHARACTERS))
    body = f"{PREFIX}{key_id}_{secret}"
    return KeyText(key_id, body + _checksum(body))


def parse_key(text: str) -> KeyText | None:
    """The key, or None if the text has another form or a wrong checksum."""
    match = _KEY.fullmatch(text)
    return KeyText(match["id"], text) if match and match["check"] == _checksum(match[1]) else None


def _checksum(body: str) -> str:
    value = crc32(body.encode())
    digits = []
    for _ in range(_CHECK_CHARACTERS):
        value, digit = divmod(value, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
