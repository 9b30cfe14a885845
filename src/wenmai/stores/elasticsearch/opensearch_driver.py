"""The official client of OpenSearch."""

from collections.abc import Mapping
from typing import Any

import msgspec
from opensearchpy import AsyncOpenSearch, JSONSerializer
from opensearchpy.exceptions import OpenSearchException, SerializationError, TransportError

from wenmai.errors import StoreUnavailable
from wenmai.stores.elasticsearch.address import Address
from wenmai.stores.elasticsearch.drivers import EXPECTED, Answer, Driver


class _Serializer(JSONSerializer):
    """The client's own takes three times as long to decode the candidates of a search."""

    def loads(self, s: str) -> Any:
        """The decoded JSON."""
        try:
            return msgspec.json.decode(s)
        except msgspec.DecodeError as problem:
            raise SerializationError(s, problem) from problem


def driver_of(address: Address, connections: int) -> Driver:
    """A client for the server at the address."""
    client = AsyncOpenSearch(
        hosts=[address.url],
        http_auth=address.login,
        maxsize=connections,
        max_retries=0,
        serializer=_Serializer(),
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
