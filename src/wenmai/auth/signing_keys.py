"""The public keys of an identity provider (JWKS, RFC 7517), from a URL or a file, read again when they are outdated."""

import asyncio
import json
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, build_opener

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from jwt import PyJWK, PyJWKSet
from jwt.exceptions import PyJWKError, PyJWKSetError

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
        parts = urlsplit(source)
        insecure = parts.scheme == "http" and parts.hostname not in _LOOPBACK
        self._is_url = parts.scheme in ("http", "https")
        if insecure or not (self._is_url or Path(source).is_file()):
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
        except (OSError, ValueError, PyJWKSetError, PyJWKError) as problem:
            self._failed = True
            _log.warning("the signing keys of tokens cannot be read: %s: %s", type(problem).__name__, problem)
        else:
            self._failed = False
            self._read_at = began

    def _load(self) -> Mapping[str, PyJWK]:
        """The keys for signatures, by id; those of shared secrets and short ones are left out.

        Raises:
            OSError: the source cannot be read.
            ValueError: it is too long, or no JSON.
            PyJWKSetError: it has no usable key.
        """
        if self._is_url:
            with build_opener(_NoRedirect).open(self._source, timeout=READ_SECONDS) as response:
                content = response.read(_MAX_BYTES + 1)
        else:
            with Path(self._source).open("rb") as file:
                content = file.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise ValueError(f"longer than {_MAX_BYTES} bytes")
        raw = json.loads(content)
        if not isinstance(raw, dict):
            raise ValueError("no JSON object")  # noqa: TRY004 — the content is wrong, not a type of ours
        keys = PyJWKSet.from_dict(raw).keys
        return {key.key_id or "": key for key in keys if _signs(key)}


def _signs(key: PyJWK) -> bool:
    """Whether it is a public key for signatures, and an RSA key is long enough."""
    short = isinstance(key.key, RSAPublicKey) and key.key.key_size < _MIN_RSA_BITS
    return key.key_type in _ASYMMETRIC and key.public_key_use in (None, "sig") and not short
