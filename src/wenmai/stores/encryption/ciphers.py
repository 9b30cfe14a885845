"""Encryption with one user's data key, and wrapping of data keys by the key of their tenant."""

import binascii
import os
import re
import secrets
from collections import deque
from collections.abc import Iterable
from hashlib import blake2b

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from wenmai.errors import Undecipherable
from wenmai.scope import Scope
from wenmai.stores.encryption.settings import KEY_BYTES, MasterKey

SEALED, SEALED_VALUE = "wm1:", "wm1s:"
"""Before an encrypted text, and before an encrypted value of a search field."""

_KEY_ID_BYTES = 6
_SEALED = re.compile(f"{SEALED}[0-9a-f]{{{2 * _KEY_ID_BYTES}}}:")

_NONCE_BYTES = 12
_NONCES = 256
"""Nonces that are drawn together: each system call lets another thread go first."""

_TERM_BYTES, _FIRST_TERM = 5, 10**12
"""Keyed digests of terms are 13 decimal digits, which text analysis takes for a number."""

_MARK_BYTES = 8

_PUNCTUATION = str.maketrans("0123456789abcdef", "!#$%&*+-/:;<=>?@")

_pack = msgspec.msgpack.Encoder().encode


def about(scope: Scope, *names: str) -> bytes:
    """The associated data of a ciphertext: its owner and its place, without which it is not decrypted."""
    return _pack((*scope, *names))


def is_sealed(text: str) -> bool:
    """Whether the text has the form of an encrypted one."""
    return _SEALED.match(text) is not None


def key_id_of(sealed: str) -> str:
    """The id of the data key that a text or value was encrypted with."""
    return sealed.partition(":")[2].partition(":")[0]


class DataKey:
    """The keys of a user, derived from one secret.

    Attributes:
        key_id: in every ciphertext.
    """

    __slots__ = ("_terms", "_texts", "_values", "key_id")

    def __init__(self, key_id: str, secret: bytes) -> None:
        self.key_id = key_id
        derived = _derive(secret, b"wenmai data key", 4 * KEY_BYTES)
        self._texts = AESGCM(derived[:KEY_BYTES])
        self._terms = derived[KEY_BYTES : 2 * KEY_BYTES]
        self._values = AESSIV(derived[2 * KEY_BYTES :])

    def seal(self, plain: bytes, place: bytes) -> str:
        """Encrypt a text for its place."""
        nonce = random_bytes()
        encrypted = nonce + self._texts.encrypt(nonce, plain, place)
        return f"{SEALED}{self.key_id}:{_text_of(encrypted)}"

    def open(self, sealed: str, place: bytes) -> bytes:
        """Decrypt a text.

        Raises:
            Undecipherable: it was changed, or belongs to another place.
        """
        try:
            encrypted = binascii.a2b_base64(sealed.split(":", 2)[2], strict_mode=True)
            return self._texts.decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], place)
        except (InvalidTag, ValueError, IndexError) as problem:
            raise Undecipherable("it was changed, or moved from another place") from problem

    def seal_value(self, value: str, place: bytes) -> str:
        """Encrypt a short value; equal values of a place have equal ciphertexts (AES-SIV)."""
        return f"{SEALED_VALUE}{self.key_id}:{_text_of(self._values.encrypt(value.encode(), [place]))}"

    def open_value(self, sealed: str, place: bytes) -> str:
        """Decrypt a value.

        Raises:
            Undecipherable: it was changed, or belongs to another place.
        """
        try:
            encrypted = binascii.a2b_base64(sealed.split(":", 2)[2], strict_mode=True)
            return self._values.decrypt(encrypted, [place]).decode()
        except (InvalidTag, ValueError, IndexError) as problem:
            raise Undecipherable("it was changed, or moved from another place") from problem

    def terms(self, terms: Iterable[str]) -> dict[str, str]:
        """The keyed digests of terms of a search index, as numbers."""
        key, size, first, number = self._terms, _TERM_BYTES, _FIRST_TERM, int.from_bytes
        return {term: str(first + number(blake2b(term.encode(), key=key, digest_size=size).digest())) for term in terms}

    def mark(self, text: str) -> str:
        """The keyed digest of a whole text, in characters that text analysis leaves out."""
        return blake2b(text.encode(), key=self._terms, digest_size=_MARK_BYTES).hexdigest().translate(_PUNCTUATION)


def new_key_id() -> str:
    """A random id of a data key."""
    return secrets.token_hex(_KEY_ID_BYTES)


def wrap(master: MasterKey, scope: Scope, key_id: str, secret: bytes) -> str:
    """Encrypt the secret of a user's data key with the key of the tenant."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    wrapped = _tenant_cipher(master, scope).encrypt(nonce, secret, about(scope, key_id, master.key_id))
    return _text_of(nonce + wrapped)


def unwrap(master: MasterKey, scope: Scope, key_id: str, wrapped: str) -> bytes:
    """The inverse of :func:`wrap`.

    Raises:
        Undecipherable: another key wrapped it, or it was changed.
    """
    try:
        encrypted = binascii.a2b_base64(wrapped, strict_mode=True)
        place = about(scope, key_id, master.key_id)
        return _tenant_cipher(master, scope).decrypt(encrypted[:_NONCE_BYTES], encrypted[_NONCE_BYTES:], place)
    except (InvalidTag, ValueError) as problem:
        raise Undecipherable(f"the master key {master.key_id} did not wrap its data key") from problem


def check_value(master: MasterKey, ring: str) -> str:
    """A digest by which another key under the same id is recognized."""
    return _derive(master.secret, b"wenmai key check" + ring.encode(), 16).hex()


_nonces: deque[bytes] = deque()
os.register_at_fork(after_in_child=_nonces.clear)


def random_bytes() -> bytes:
    """12 random bytes, which no other thread or process has: a nonce, or an id."""
    while True:
        try:
            return _nonces.popleft()
        except IndexError:
            drawn = secrets.token_bytes(_NONCES * _NONCE_BYTES)
            _nonces.extend(drawn[start : start + _NONCE_BYTES] for start in range(0, len(drawn), _NONCE_BYTES))


def _tenant_cipher(master: MasterKey, scope: Scope) -> AESGCM:
    return AESGCM(_derive(master.secret, b"wenmai tenant key" + scope.tenant_id.encode(), KEY_BYTES))


def _derive(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(algorithm=SHA256(), length=length, salt=None, info=purpose).derive(secret)


def _text_of(encrypted: bytes) -> str:
    return binascii.b2a_base64(encrypted, newline=False).decode()
