"""The public keys of an identity provider (JWKS, RFC 7517), from a URL or a file, read again when they are outdated."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from wenmai.errors import InvalidInput, SigningKeysUnavailable

_log = logging.getLogger(__name__)

REFRESH_SECONDS = 600.0
"""Age from which keys are read again, in the background."""
RETRY_SECONDS = 10.0
"""Least time between two reads, however many tokens name unknown keys."""
KEEP_SECONDS = 86_400.0
"""Age from which keys that could not be read again are no longer trusted."""
READ_SECONDS = 5.0
"""Timeout of a read."""

_MAX_BYTES = 256 * 1024
_MIN_RSA_BITS = 2_048
_ASYMMETRIC = frozenset({"RSA", "EC", "OKP"})
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
_CHUNK = 16 * 1024

_UNREADABLE = (OSError, ValueError, HTTPException, RecursionError)
_UNUSABLE = (PyJWTError, ValueError, TypeError, AttributeError, NotImplementedError)
"""Raised by PyJWT for a key that is malformed or of another algorithm."""


class _NoRedirect(HTTPRedirectHandler):
    """Refuses redirects: an address that was not checked, or plain HTTP, could be named."""

    def redirect_request(self, *_: Any) -> None:
        """Make no request; the response is then an error."""


class SigningKeys:
    """The keys by which tokens are signed.

    Args:
        source: an https URL, an http URL of this machine, or the path of a file.

    Raises:
        InvalidInput: the source is none of these.
    """

    def __init__(self, source: str) -> None:
        self._is_url = urlsplit(source).scheme in ("http", "https")
        if not (_is_secure(source) if self._is_url else Path(source).is_file()):
            raise InvalidInput("jwt_keys", source, "an https URL of a JWKS, an http URL of this machine, or a file")
        self._source = source
        self._keys: Mapping[str, PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._failed = False
        self._reading: asyncio.Task[None] | None = None

    async def find(self, key_id: str) -> PyJWK | None:
        """The key of that id, or None; for "" the only key, if there is one only.

        Raises:
            SigningKeysUnavailable: it is unknown, and the keys cannot be read.
        """
        now = time.monotonic()
        if now - self._read_at > KEEP_SECONDS:
            self._keys = {}
        known = self._known(key_id)
        if known is None:
            await asyncio.shield(self._refresh(now))
            known = self._known(key_id)
            if known is None and self._failed:
                raise SigningKeysUnavailable(round(RETRY_SECONDS))
        elif now - self._read_at > REFRESH_SECONDS:
            self._refresh(now)
        return known

    def _known(self, key_id: str) -> PyJWK | None:
        if not key_id and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(key_id)

    def _refresh(self, now: float) -> asyncio.Task[None]:
        """The task that reads the keys: the running one, the last one if it is too early for another, or a new one."""
        if self._reading is None or (self._reading.done() and now - self._tried_at > RETRY_SECONDS):
            self._tried_at = now
            self._reading = asyncio.create_task(self._read())
        return self._reading

    async def _read(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(READ_SECONDS):
                self._keys = await asyncio.to_thread(self._load)
        except _UNREADABLE as problem:
            self._failed = True
            _log.warning("the signing keys of tokens cannot be read: %s: %s", type(problem).__name__, problem)
        else:
            self._failed = False
            self._read_at = began

    def _load(self) -> Mapping[str, PyJWK]:
        """The keys for signatures, by id; those of shared secrets and short ones are left out.

        Raises:
            OSError: the source cannot be read, or not in time.
            HTTPException: the response is malformed.
            ValueError: it is too long, no JSON, or has no usable key.
            RecursionError: it is nested too deeply.
        """
        raw = json.loads(_response(self._source) if self._is_url else _file(self._source))
        keys = raw.get("keys") if isinstance(raw, dict) else None
        usable = [key for each in (keys if isinstance(keys, list) else []) if (key := _usable(each)) is not None]
        if not usable:
            raise ValueError("no usable key")
        return {key.key_id or "": key for key in usable}


def _is_secure(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)


def _response(url: str) -> bytes:
    until = time.monotonic() + READ_SECONDS
    content = b""
    with build_opener(_NoRedirect).open(url, timeout=READ_SECONDS) as response:
        while chunk := response.read1(_CHUNK):
            content += chunk
            if time.monotonic() > until:
                raise TimeoutError("the response takes too long")
            _check_length(content)
        if response.length:
            raise ValueError("the response is cut short")
    return content


def _file(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(_MAX_BYTES + 1)
    _check_length(content)
    return content


def _check_length(content: bytes) -> None:
    if len(content) > _MAX_BYTES:
        raise ValueError(f"longer than {_MAX_BYTES} bytes")


def _usable(raw: Any) -> PyJWK | None:
    """The public key for signatures; None for one that is malformed, short, or of another kind or use."""
    try:
        key = PyJWK.from_dict(raw)
    except _UNUSABLE as problem:
        _log.info("a signing key is left out: %s", type(problem).__name__)
        return None
    short = isinstance(key.key, RSAPublicKey) and key.key.key_size < _MIN_RSA_BITS
    is_public = key.key_type in _ASYMMETRIC and key.public_key_use in (None, "sig")
    return key if is_public and not short and isinstance(key.key_id, str | None) else None
