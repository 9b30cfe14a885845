"""The official clients of OpenSearch and Elasticsearch, both behind the same function.

Only their lowest level is used, a request with a path and a body: there the two servers are the same, and the clients
add pooling, authentication, TLS and errors.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, NamedTuple

from wenmai.errors import MissingExtra
from wenmai.stores.elasticsearch.address import Address

EXPECTED = (400, 404, 409)
"""Statuses that are answers; every other failure is an error."""

Answer = Any
"""Decoded JSON."""


class Driver(NamedTuple):
    """A client.

    Attributes:
        request: method, path, parameters, headers, body and timeout of a request, to its answer.
        close: closes the connections.
    """

    request: Callable[[str, str, Mapping[str, str], Mapping[str, str], bytes | None, float], Awaitable[Answer]]
    close: Callable[[], Awaitable[None]]


def connect(address: Address, *, connections: int) -> Driver:
    """The client of the address's server; it connects with its first request.

    Raises:
        MissingExtra: it is not installed.
    """
    try:
        module = import_module(f"wenmai.stores.elasticsearch.{address.kind}_driver")
    except ModuleNotFoundError as missing:
        raise MissingExtra((missing.name or address.kind).partition(".")[0], address.kind) from missing
    driver: Driver = module.driver_of(address, connections)
    return driver
