"""The official clients of OpenSearch and Elasticsearch, both behind the same function.

Only their lowest level is used, a request with a path and a body: there the two servers are the same, and the clients
add pooling, authentication, TLS and errors.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from wenmai.errors import MissingExtra, StoreUnavailable
from wenmai.stores.elasticsearch.address import Address, Kind

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
        return _DRIVERS[address.kind](address, connections)
    except ModuleNotFoundError as missing:
        raise MissingExtra((missing.name or address.kind).partition(".")[0], address.kind) from missing


def _opensearch(address: Address, connections: int) -> Driver:
    from opensearchpy import AsyncOpenSearch  # noqa: PLC0415 — one of the two clients is enough
    from opensearchpy.exceptions import OpenSearchException, TransportError  # noqa: PLC0415

    client = AsyncOpenSearch(
        hosts=[address.url],
        http_auth=address.login,
        maxsize=connections,
        max_retries=0,
        timeout=address.timeout,
    )

    async def request(
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,  # noqa: ASYNC109 — the client's own
    ) -> Answer:
        options: dict[str, Any] = {**params, "ignore": EXPECTED, "request_timeout": timeout}
        try:
            return await client.transport.perform_request(
                method, path, params=options, body=body, headers=dict(headers)
            )
        except TransportError as problem:
            raise StoreUnavailable("opensearch", f"{problem.status_code} {problem.error}") from problem
        except OpenSearchException as problem:
            raise StoreUnavailable("opensearch", str(problem)) from problem

    return Driver(request, client.close)


def _elasticsearch(address: Address, connections: int) -> Driver:
    from elastic_transport import TransportError  # noqa: PLC0415
    from elasticsearch import ApiError, AsyncElasticsearch  # noqa: PLC0415

    client = AsyncElasticsearch(
        [address.url],
        basic_auth=address.login,
        connections_per_node=connections,
        max_retries=0,
        request_timeout=address.timeout,
    )

    async def request(
        method: str,
        path: str,
        params: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: float,  # noqa: ASYNC109 — the client's own
    ) -> Answer:
        asked = client.options(request_timeout=timeout, ignore_status=EXPECTED)
        try:
            answer = await asked.perform_request(method, path, params=params, headers=headers, body=body)
        except ApiError as problem:
            raise StoreUnavailable("elasticsearch", f"{problem.status_code} {problem.message}") from problem
        except TransportError as problem:
            raise StoreUnavailable("elasticsearch", str(problem)) from problem
        return answer.body

    return Driver(request, client.close)


_DRIVERS: dict[Kind, Callable[[Address, int], Driver]] = {"opensearch": _opensearch, "elasticsearch": _elasticsearch}
