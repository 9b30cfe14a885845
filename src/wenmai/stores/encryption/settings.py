"""What encryption needs from the settings: the master keys, and where data keys are stored."""

import base64
import binascii
import re
import secrets
from pathlib import Path
from typing import NamedTuple

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.key_prefix import with_key_prefix

KEY_BYTES = 32

_KEY_ID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_FORM = f"one or more of id:key, each key {KEY_BYTES} bytes in base64 (wenmai encryption new-key prints one)"


class MasterKey(NamedTuple):
    """A master key and its id, which the data keys that it wraps name."""

    key_id: str
    secret: bytes


class Encryption(msgspec.Struct, frozen=True, kw_only=True):
    """How private values are encrypted.

    Attributes:
        master_keys: ``id:key`` of the master keys, separated by commas or white space. The first one wraps new data
            keys, the others unwrap those of before.
        keys_store: URL of the store that has the data keys; empty for the store of what they encrypt.
        vectors: whether the vectors of what users said are stored, unencrypted; if not, an embedder is not used for it.
    """

    master_keys: str
    keys_store: str = ""
    vectors: bool = False

    @classmethod
    def of_settings(
        cls, *, master_keys: str, master_keys_file: str, keys_store: str, key_prefix: str, encrypt_vectors: bool
    ) -> "Encryption | None":
        """With the master keys, or those in the file; None without any.

        Raises:
            InvalidInput: the file cannot be read.
        """
        if not master_keys and master_keys_file:
            try:
                master_keys = Path(master_keys_file).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as problem:
                raise InvalidInput("master_keys_file", master_keys_file, f"a readable file: {problem}") from problem
        if not master_keys.strip():
            return None
        keys_store = with_key_prefix(keys_store, key_prefix) if keys_store else ""
        return cls(master_keys=master_keys, keys_store=keys_store, vectors=encrypt_vectors)

    def parsed(self) -> tuple[MasterKey, ...]:
        """The master keys, the one that wraps new data keys first.

        Raises:
            InvalidInput: there is none, or one is malformed; the message shows no key.
        """
        parts = self.master_keys.replace(",", " ").split()
        found = [_parsed(part) for part in parts]
        if not found or len({key.key_id for key in found}) < len(found):
            raise InvalidInput("master_keys", "***", f"{_FORM}, with different ids")
        return tuple(found)


def new_master_key(key_id: str) -> str:
    """A random master key as the setting has it.

    Raises:
        InvalidInput: the id is malformed.
    """
    if not _KEY_ID.fullmatch(key_id):
        raise InvalidInput("id", key_id, "1 to 40 letters, digits, hyphens or underscores")
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def _parsed(part: str) -> MasterKey:
    key_id, _, encoded = part.partition(":")
    try:
        secret = base64.b64decode(encoded, validate=True)
    except binascii.Error:
        secret = b""
    if len(secret) != KEY_BYTES or not _KEY_ID.fullmatch(key_id):
        raise InvalidInput("master_keys", "***", _FORM)
    return MasterKey(key_id, secret)
