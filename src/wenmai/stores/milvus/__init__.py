"""Milvus: the search contract, in a file of one process (Milvus Lite) or on a cluster."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, closing

from wenmai.clock import Clock
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.milvus.address import Address, parse_url
from wenmai.stores.milvus.client import Client
from wenmai.stores.milvus.lite import lite_server
from wenmai.stores.milvus.rows import EPISODES, OTHERS
from wenmai.stores.milvus.search import MilvusSearch


class MilvusStore:
    """An open Milvus server. See :class:`wenmai.stores.contracts.Store`."""

    name = "milvus"

    def __init__(self, client: Client) -> None:
        self._client = client
        self.documents: Documents | None = None
        self.logs: Logs | None = None
        self.search: MilvusSearch = MilvusSearch(client)

    async def ping(self) -> None:
        """Return if the server answers."""
        await asyncio.to_thread(self._client.ping)


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[MilvusStore]:  # noqa: ARG001 — nothing has a timestamp
    """Open the file, creating it if needed, or connect to the server.

    Raises:
        InvalidInput: the URL names neither.
        StoreUnavailable: the file cannot be opened, or the server cannot be reached.
    """
    address = parse_url(url)
    with ExitStack() as stack:
        client = await asyncio.to_thread(_connect, address, stack)
        try:
            yield MilvusStore(client)
        finally:
            await asyncio.to_thread(stack.close)


def _connect(address: Address, stack: ExitStack) -> Client:
    uri = address.uri if address.file is None else stack.enter_context(lite_server(address.file))
    client = Client(uri, user=address.user, password=address.password, database=address.database)
    stack.enter_context(closing(client))
    client.load((EPISODES, OTHERS))
    return client
