"""Parsing ``opensearch://`` and ``elasticsearch://`` URLs."""

import re
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from wenmai.errors import InvalidInput

EXAMPLE = "opensearch+https://user:password@host:9200/prefix"
DEFAULT_PREFIX = "wenmai"
_PORT = 9200
_PREFIX = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}")

Kind = Literal["opensearch", "elasticsearch"]


class Address(NamedTuple):
    """The location of the store.

    Attributes:
        kind: which of the two servers, and so which client.
        url: of the server, without user and password.
        login: user and password; None without.
        prefix: of the names of all indices.
        timeout: of a request, in seconds.
        shards: primary shards of the indices that are created.
    """

    kind: Kind
    url: str
    login: tuple[str, str] | None
    prefix: str
    timeout: int
    shards: int


class _Parameter(NamedTuple):
    default: int
    least: int
    most: int


_PARAMETERS = {"timeout": _Parameter(5, 1, 60), "shards": _Parameter(1, 1, 64)}


def parse_url(url: str) -> Address:
    """The location in the URL; with ``+https`` in the scheme, the server is reached over TLS.

    Raises:
        InvalidInput: the URL cannot be parsed, or a part is not allowed; the password is not repeated.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
        given = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError:
        raise _refusal(url) from None
    if not parts.hostname or parts.fragment:
        raise _refusal(url)
    unknown = sorted(given.keys() - _PARAMETERS.keys())
    if unknown:
        raise InvalidInput(f"store.{unknown[0]}", given[unknown[0]], f"one of the parameters {', '.join(_PARAMETERS)}")
    prefix = unquote(parts.path.strip("/")) or DEFAULT_PREFIX
    if not _PREFIX.fullmatch(prefix):
        raise InvalidInput("store.prefix", prefix, "1 to 64 of a-z 0-9 _ . - beginning with a letter or digit")
    kind, _, secure = parts.scheme.partition("+")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Address(
        kind="opensearch" if kind == "opensearch" else "elasticsearch",
        url=f"{secure or 'http'}://{host}:{port}",
        login=(unquote(parts.username), unquote(parts.password or "")) if parts.username else None,
        prefix=prefix,
        timeout=_number("timeout", given),
        shards=_number("shards", given),
    )


def _number(name: str, given: dict[str, str]) -> int:
    parameter = _PARAMETERS[name]
    text = given.get(name, str(parameter.default))
    if not (text.isascii() and text.isdecimal() and parameter.least <= int(text) <= parameter.most):
        raise InvalidInput(f"store.{name}", text, f"a number from {parameter.least} to {parameter.most}")
    return int(text)


def _refusal(url: str) -> InvalidInput:
    return InvalidInput("store", f"{url.partition('://')[0]}://…", f"like {EXAMPLE}, with special characters escaped")
