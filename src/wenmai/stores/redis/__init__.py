"""The Redis store: documents and logs on a Redis or Valkey server, as a cache or as the only store.

Each atomic change is one Lua script; an append that returns the tail, the main step of a turn, is one round trip. Keys
and formats are in :mod:`.keys`, :mod:`.rows` and :mod:`.messages`. A server without persistence loses everything with
its process, and never a part of a session.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

from wenmai.clock import Clock
from wenmai.stores.contracts import Search
from wenmai.stores.redis.address import Address, parse_address
from wenmai.stores.redis.documents import RedisDocuments
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import STORE, Link
from wenmai.stores.redis.logs import RedisLogs
from wenmai.stores.redis.retention import Retention


class RedisStore:
    """An open server. See :class:`wenmai.stores.contracts.Store`."""

    name = STORE

    def __init__(self, link: Link, address: Address, clock: Clock) -> None:
        self._link = link
        keys = Keys(address.prefix)
        retention = Retention(link, keys, clock, timedelta(days=address.kept_days))
        self.documents: RedisDocuments = RedisDocuments(link, keys, clock, retention)
        self.logs: RedisLogs = RedisLogs(link, keys, clock, retention)
        self.search: Search | None = None

    async def ping(self) -> None:
        """Return if the server answers."""
        await self._link.command("PING")

    async def check(self) -> None:
        """Return if the server can hold the store.

        Raises:
            StoreUnavailable: it cannot be reached, refuses the password, is too old, is a cluster and the prefix has no
                hash tag, or evicts keys when its memory is full.
        """
        await self._link.check()
        await self._link.check_eviction()


@asynccontextmanager
async def attach_store(url: str, *, clock: Clock) -> AsyncIterator[RedisStore]:
    """The store without a check of the server, which may be down.

    Raises:
        InvalidInput: the URL is not one of a Redis store.
    """
    address = parse_address(url)
    link = Link(address)
    try:
        yield RedisStore(link, address, clock)
    finally:
        await link.close()


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[RedisStore]:
    """Open the store at ``url``; see :class:`.address.Address` for the URL's options.

    Raises:
        InvalidInput: the URL is not one of a Redis store.
        StoreUnavailable: see :meth:`RedisStore.check`.
    """
    async with attach_store(url, clock=clock) as store:
        await store.check()
        yield store
