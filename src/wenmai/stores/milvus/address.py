"""Parsing ``milvus://`` URLs: a file of Milvus Lite, or a server."""

from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from wenmai.errors import InvalidInput

EXAMPLE = "milvus:///relative.db, milvus:////absolute.db or milvus://user:password@host:19530/database"
_PORT = 19530


class Address(NamedTuple):
    """The location of the store.

    Attributes:
        file: of Milvus Lite; None for a server.
        uri: of the server, for the driver; empty for a file.
        shown: without user and password, for messages.
    """

    file: Path | None
    uri: str
    user: str
    password: str
    database: str
    shown: str


def parse_url(url: str) -> Address:
    """The location in the URL; with ``milvuss://`` the server is reached over TLS.

    Raises:
        InvalidInput: the URL names neither a file nor a server; the password is not repeated.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or _PORT
    except ValueError:
        raise _refusal(url) from None
    if parts.query or parts.fragment:
        raise _refusal(url)
    if not parts.netloc:
        return _file(parts, url)
    if not parts.hostname:
        raise _refusal(url)
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    scheme = "https" if parts.scheme == "milvuss" else "http"
    database = unquote(parts.path[1:])
    return Address(
        file=None,
        uri=f"{scheme}://{host}:{port}",
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=database,
        shown=f"{parts.scheme}://{host}:{port}/{database}",
    )


def _file(parts: SplitResult, url: str) -> Address:
    path = parts.path[1:]
    if parts.scheme != "milvus" or not path.strip("/"):
        raise _refusal(url)
    return Address(file=Path(path), uri="", user="", password="", database="", shown=f"milvus:///{path}")


def _refusal(url: str) -> InvalidInput:
    return InvalidInput("store", f"{url.partition('://')[0]}://…", f"like {EXAMPLE}, with special characters escaped")
