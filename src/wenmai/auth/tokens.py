"""Tokens of an identity provider: signed JWTs (RFC 7519), whose claims say for whom the sender speaks."""

import logging
import re
from collections.abc import Mapping
from typing import Any, cast

import jwt

from wenmai.auth.principal import RIGHTS, ClaimNames, Principal, Right
from wenmai.auth.signing_keys import SigningKeys
from wenmai.errors import InvalidInput, Unauthenticated

_log = logging.getLogger(__name__)

ALGORITHMS = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"})
"""Signatures by a private key. A token signed with a shared secret, or not at all, is refused."""

MAX_LENGTH = 8_192
MAX_SUBJECT = 255
LEEWAY_SECONDS = 30.0
"""Difference of clocks that is allowed for."""

RIGHT_PREFIX = "wenmai:"
"""Begins a right in a token: ``wenmai:chat``. Other entries of the claim are another service's."""

_REFUSALS = (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError)
"""Raised by PyJWT for a wrong token; it does not translate those of JSON that is nested deeply or has huge numbers."""

_NAME = re.compile(r"[A-Za-z0-9_.:@-]{1,128}")


class Tokens:
    """Checks tokens.

    Args:
        issuer: the only one, as in ``iss``.
        audience: that ``aud`` must name.
        keys: URL or file of the issuer's public keys.
        claims: the names of the claims.

    Raises:
        InvalidInput: a setting is missing or wrong.
    """

    def __init__(self, issuer: str, audience: str, keys: str, claims: ClaimNames) -> None:
        for field, value in (
            ("jwt_issuer", issuer),
            ("jwt_audience", audience),
            ("jwt_tenant_claim", claims.tenant),
            ("jwt_rights_claim", claims.rights),
        ):
            if not value:
                raise InvalidInput(field, value, "set, as the setting auth accepts tokens")
        self._issuer = issuer
        self._audience = audience
        self._keys = SigningKeys(keys)
        self._claims = claims

    async def principal(self, text: str) -> Principal:
        """For whom a token speaks.

        Raises:
            Unauthenticated: it is malformed, expired, not yet valid, of another issuer or audience, not signed by one
                of the issuer's keys, or its claims name no tenant, user, site or right as they should.
            SigningKeysUnavailable: the key that it names is unknown, and the keys cannot be read.
        """
        try:
            return self._principal(await self._verified(text))
        except _REFUSALS as problem:
            _log.info("a token is refused: %s", type(problem).__name__)
            raise Unauthenticated from problem

    async def _verified(self, text: str) -> Mapping[str, Any]:
        if len(text) > MAX_LENGTH:
            raise jwt.DecodeError("too long")
        header = jwt.get_unverified_header(text)
        if header.get("alg") not in ALGORITHMS or "crit" in header:
            raise jwt.InvalidAlgorithmError("not allowed")
        key_id = header.get("kid", "")
        key = await self._keys.find(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise jwt.InvalidKeyError("unknown")
        claims: Mapping[str, Any] = jwt.decode(
            text,
            key,
            algorithms=[key.algorithm_name],
            audience=self._audience,
            issuer=self._issuer,
            leeway=LEEWAY_SECONDS,
            options={"require": ["exp", "iss", "aud"]},
        )
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        names = self._claims
        rights = {each.removeprefix(RIGHT_PREFIX) for each in _words(claims, names.rights) if RIGHT_PREFIX in each}
        sites = tuple(map(_checked, _words(claims, names.sites))) if names.sites in claims else ()
        if names.sites in claims and not sites:
            raise jwt.InvalidTokenError("no site")
        return Principal(
            actor=f"sub:{_subject(claims.get('sub', ''))}",
            tenant_id=_checked(claims.get(names.tenant)),
            sites=sites,
            user_id=_checked(claims.get(names.user)) if names.user else "",
            rights=frozenset(cast("set[Right]", rights.intersection(RIGHTS))),
        )


def _words(claims: Mapping[str, Any], name: str) -> list[str]:
    """The entries of a claim: a list, or a text with blanks between them.

    Raises:
        jwt.InvalidTokenError: it is neither.
    """
    value = claims.get(name, [])
    words = value.split() if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(each, str) for each in words):
        raise jwt.InvalidTokenError(name)
    return words


def _checked(name: object) -> str:
    """The name of a tenant, site or user, as headers may have it.

    Raises:
        jwt.InvalidTokenError: it is no such name.
    """
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise jwt.InvalidTokenError("no name of a tenant, site or user")
    return name


def _subject(name: object) -> str:
    """The subject, as logs may have it.

    Raises:
        jwt.InvalidTokenError: it is no text, too long, or has control characters.
    """
    if not isinstance(name, str) or len(name) > MAX_SUBJECT or not name.isprintable():
        raise jwt.InvalidTokenError("no subject")
    return name
