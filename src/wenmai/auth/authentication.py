"""Who sends a request: by its API key, or by a token of an identity provider, whichever is accepted."""

from importlib import import_module
from typing import TYPE_CHECKING

from wenmai.auth.key_text import PREFIX
from wenmai.auth.keys import ApiKeys
from wenmai.auth.principal import ClaimNames, Principal
from wenmai.errors import MissingExtra, Unauthenticated

if TYPE_CHECKING:
    from wenmai.auth.tokens import Tokens

_CHECK_OF_TOKENS = "wenmai.auth.tokens"
"""Imported by a service that accepts tokens only: it needs PyJWT, which an extra installs."""


def open_tokens(issuer: str, audience: str, keys: str, claims: ClaimNames) -> "Tokens":
    """The check of tokens; see :class:`wenmai.auth.tokens.Tokens`.

    Raises:
        InvalidInput: a setting is missing or wrong.
        MissingExtra: PyJWT is not installed.
    """
    try:
        module = import_module(_CHECK_OF_TOKENS)
    except ModuleNotFoundError as missing:
        raise MissingExtra((missing.name or "jwt").partition(".")[0], "jwt") from missing
    tokens: Tokens = module.Tokens(issuer, audience, keys, claims)
    return tokens


class Authentication:
    """Checks the credentials of requests.

    Args:
        keys: the API keys; None if they are not accepted.
        tokens: the tokens; None if they are not accepted.
    """

    def __init__(self, keys: ApiKeys | None, tokens: "Tokens | None") -> None:
        self._keys = keys
        self._tokens = tokens

    async def principal(self, text: str) -> Principal:
        """For whom the sender of an API key or a token speaks.

        Raises:
            Unauthenticated: it is not valid, or not accepted.
            SigningKeysUnavailable: the token cannot be checked.
            StoreError: the key cannot be checked.
        """
        checker = self._keys if text.startswith(PREFIX) else self._tokens
        if checker is None:
            raise Unauthenticated
        return await checker.principal(text)
