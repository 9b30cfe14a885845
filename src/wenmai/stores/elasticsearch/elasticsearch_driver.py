"""The official client of Elasticsearch."""

from collections.abc import Mapping
from typing import Any

import msgspec
from elastic_transport import JsonSerializer, SerializationError, TransportError
from elasticsearch import ApiError, AsyncElasticsearch

from wenmai.errors import StoreUnavailable
from wenmai.stores.elasticsearch.address import Address
from wenmai.stores.elasticsearch.drivers import EXPECTED, Answer, Driver


class _Serializer(JsonSerializer):
    """The client's own takes three times as long to decode the candidates of a search."""

    def loads(self, data: bytes) -> Any:
        """The decoded JSON."""
        try:
            return msgspec.json.decode(data)
        except msgspec.DecodeError as problem:
            raise SerializationError("the answer is not JSON", errors=(problem,)) from problem


def driver_of(address: Address, connections: int) -> Driver:
    """A client for the server at the address."""
    client = AsyncElasticsearch(
        [address.url],
        basic_auth=address.login,
        connections_per_node=connections,
        max_retries=0,
        serializer=_Serializer(),
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
