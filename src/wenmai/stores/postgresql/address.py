"""Parsing ``postgresql://`` URLs: the driver's DSN, and our own limits."""

from typing import NamedTuple
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from wenmai.errors import InvalidInput

EXAMPLE = "postgresql://user:password@host:5432/database"


class Bounds(NamedTuple):
    """Connection limit and timeouts of a process.

    Attributes:
        connections: most connections.
        connect_seconds: timeout for a new connection, and for a free one of the pool.
        statement_seconds: timeout after which the server cancels a statement.
    """

    connections: int
    connect_seconds: float
    statement_seconds: float


class Address(NamedTuple):
    """The location of the store.

    Attributes:
        dsn: for the driver; contains the password.
        shown: server and database only, for messages.
    """

    dsn: str
    shown: str
    bounds: Bounds


class _Parameter(NamedTuple):
    default: int
    least: int
    most: int


_PARAMETERS = {
    "max_connections": _Parameter(10, 1, 1_000),
    "connect_timeout": _Parameter(5, 1, 60),
    "statement_timeout": _Parameter(10_000, 100, 600_000),
}
"""Our URL parameters: a number, seconds (as in libpq), milliseconds (as on the server)."""


def parse_url(url: str) -> Address:
    """Split the URL into the driver's DSN and our own limits.

    Raises:
        InvalidInput: the URL cannot be parsed or a parameter is out of range; the password is not repeated.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        given = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        # The URL may contain a password with a slash, so the error does not quote it.
        raise InvalidInput("store", "postgresql://…", f"like {EXAMPLE}, with special characters escaped") from None
    ours = {name: value for name, value in given if name in _PARAMETERS}
    rest = [(name, value) for name, value in given if name not in _PARAMETERS]
    host = parts.hostname or dict(rest).get("host", "localhost")
    shown = f"postgresql://{host}{f':{port}' if port else ''}/{unquote(parts.path[1:])}"
    numbers = {name: _number(name, ours.get(name), parameter) for name, parameter in _PARAMETERS.items()}
    return Address(
        urlunsplit(("postgresql", parts.netloc, parts.path, urlencode(rest), "")),
        shown,
        Bounds(numbers["max_connections"], numbers["connect_timeout"], numbers["statement_timeout"] / 1_000),
    )


def _number(name: str, given: str | None, parameter: _Parameter) -> int:
    if given is None:
        return parameter.default
    allowed = f"a number from {parameter.least} to {parameter.most}"
    if not given.isascii() or not given.isdecimal() or not parameter.least <= int(given) <= parameter.most:
        raise InvalidInput(f"store.{name}", given, allowed)
    return int(given)
