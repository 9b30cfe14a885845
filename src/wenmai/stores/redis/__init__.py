"""The Redis store: documents and logs on a Redis or Valkey server, as the hot tier or where memory may expire.

What is atomic is one Lua script, and what a turn needs most, the append with its tail, is one round trip. Keys, types
and what they hold are in :mod:`.keys`, :mod:`.rows` and :mod:`.messages`. A server that keeps nothing on disk loses
everything with its process: then nothing is there, and nothing is half there.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from wenmai.clock import Clock
from wenmai.stores.base import Search
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.documents import RedisDocuments
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import STORE, Link
from wenmai.stores.redis.logs import RedisLogs


class RedisStore:
    """An open server. See :class:`wenmai.stores.base.Store`."""

    name = STORE

    def __init__(self, link: Link, prefix: str, clock: Clock) -> None:
        self._link = link
        keys = Keys(prefix)
        self.documents = RedisDocuments(link, keys, clock)
        self.logs = RedisLogs(link, keys, clock)
        self.search: Search | None = None

    async def ping(self) -> None:
        """Return if the server answers."""
        await self._link.command("PING")

    async def check(self) -> None:
        """Return if the server can hold the store.

        Raises:
            StoreUnavailable: it cannot be reached, refuses the password, is too old, is a cluster and the prefix has no
                hash tag, or evicts keys when it is full.
        """
        await self._link.check()
        await self._link.check_keeps()


@asynccontextmanager
async def attach_store(url: str, *, clock: Clock) -> AsyncIterator[RedisStore]:
    """Give the store without asking the server for anything; a tier that may be absent is opened so.

    Raises:
        InvalidInput: the URL is not one of a Redis store.
    """
    address = parse_address(url)
    link = Link(address)
    try:
        yield RedisStore(link, address.prefix, clock)
    finally:
        await link.close()


@asynccontextmanager
async def open_store(url: str, *, clock: Clock) -> AsyncIterator[RedisStore]:
    """Open the store at ``url``; the options of the URL are those of :class:`.address.Address`.

    Raises:
        InvalidInput: the URL is not one of a Redis store.
        StoreUnavailable: see :meth:`RedisStore.check`.
    """
    async with attach_store(url, clock=clock) as store:
        await store.check()
        yield store
