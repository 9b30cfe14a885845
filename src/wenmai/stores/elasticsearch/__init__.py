"""Elasticsearch and OpenSearch: all three contracts, for several processes and machines.

What must be exact is read by id, which sees every acknowledged write at once, and written on condition of the sequence
number that was read. Searches see what was written before they were last refreshed; where a listing must be exact, it
refreshes first.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.clock import Clock
from wenmai.stores.elasticsearch.address import Kind, parse_url
from wenmai.stores.elasticsearch.client import Client
from wenmai.stores.elasticsearch.documents import ElasticsearchDocuments
from wenmai.stores.elasticsearch.logs import ElasticsearchLogs
from wenmai.stores.elasticsearch.schema import found_schema, prepare_schema
from wenmai.stores.elasticsearch.search import ElasticsearchSearch
from wenmai.stores.upgrades import OnStep, Schema, log_step


class ElasticsearchStore:
    """The indices of one prefix on a server. See :class:`wenmai.stores.contracts.Store`."""

    def __init__(self, client: Client, kind: Kind, clock: Clock) -> None:
        self._client = client
        self.name: str = client.name
        self.documents: ElasticsearchDocuments = ElasticsearchDocuments(client, clock)
        self.logs: ElasticsearchLogs = ElasticsearchLogs(client, clock)
        self.search: ElasticsearchSearch = ElasticsearchSearch(client, kind)

    async def ping(self) -> None:
        """Return if the server answers."""
        await self._client.must("GET", "/")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Client]:
    client = Client(parse_url(url))
    try:
        yield client
    finally:
        await client.close()


async def schema_at(url: str) -> Schema:
    """The version of the indices, which are not changed.

    Raises:
        InvalidInput, StoreTooNew, StoreUnavailable: as for :func:`open_store`.
    """
    async with _connected(url) as client:
        return await found_schema(client, parse_url(url))


async def upgrade(url: str, on_step: OnStep) -> None:
    """Create or upgrade the indices, as :func:`open_store` does, reporting the step.

    Raises:
        InvalidInput, StoreTooNew, StoreUnavailable: as for :func:`open_store`.
    """
    async with _connected(url) as client:
        await prepare_schema(client, parse_url(url), on_step)


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[ElasticsearchStore]:
    """Connect to the server, creating or upgrading the indices if needed; see ``docs/how-to/run-on-opensearch.md``.

    Raises:
        InvalidInput: the URL is not allowed; the message says what is required.
        StoreTooNew: a newer Wenmai wrote the indices.
        StoreUnavailable: the server cannot be reached.
    """
    address = parse_url(url)
    async with _connected(url) as client:
        await prepare_schema(client, address, log_step)
        yield ElasticsearchStore(client, address.kind, clock)
