"""The connection to the server: bounded in number and in time, and every failure told in one way."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import redis.asyncio
from redis.asyncio.connection import Connection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as LostConnection
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from wenmai.errors import StoreUnavailable
from wenmai.stores.redis.address import Address
from wenmai.stores.redis.gate import Gate

T = TypeVar("T")
Argument = str | bytes | int

STORE = "redis"
OLDEST = 6
"""The first major version that is supported."""


class Script:
    """A Lua script and the digest by which the server knows it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Link:
    """A server and how it is spoken to.

    A call takes at most ``connect_timeout + command_timeout`` once it has a connection. While all connections are
    busy, callers wait; if the server stops answering, the first timeout is everybody's.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._bound = address.connect_timeout + address.command_timeout
        self._gate = Gate(address.max_connections)
        self._pool = ConnectionPool(
            connection_class=SSLConnection if address.tls else Connection,
            max_connections=address.max_connections,
            host=address.host,
            port=address.port,
            db=address.database,
            username=address.username,
            password=address.password,
            socket_connect_timeout=address.connect_timeout,
            socket_timeout=address.command_timeout,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        self._client = redis.asyncio.Redis.from_pool(self._pool)

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """What the script returns; the server is sent its source only if it does not know it.

        Raises:
            StoreUnavailable: the server cannot be reached, does not answer in time, or refuses.
        """
        words = (len(keys), *keys, *arguments)

        async def work() -> Any:
            try:
                return await self._client.execute_command("EVALSHA", script.digest, *words)
            except NoScriptError:
                return await self._client.execute_command("EVAL", script.source, *words)

        return await self._bounded(work)

    async def command(self, *words: Argument) -> Any:
        """The answer to one command.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        return await self._bounded(lambda: self._client.execute_command(*words))

    async def commands(self, batch: Sequence[Sequence[Argument]]) -> list[Any]:
        """The answers to several commands, sent together; others' writes may come between them.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """

        async def work() -> list[Any]:
            async with self._client.pipeline(transaction=False) as pipeline:
                for words in batch:
                    pipeline.execute_command(*words)
                return await pipeline.execute()

        return await self._bounded(work) if batch else []

    async def check(self) -> None:
        """Return if the server answers, knows what is asked of it, and can hold keys of our prefix.

        Raises:
            StoreUnavailable: it does not, is too old, or is a cluster and the prefix has no hash tag.
        """
        found = await self.command("INFO", "server")
        version = str(found.get("redis_version", "0"))
        if int(version.partition(".")[0]) < OLDEST:
            raise StoreUnavailable(STORE, f"the server is Redis {version}; version {OLDEST} or later is needed")
        if found.get("redis_mode") == "cluster" and not self._address.hash_tag:
            prefix = self._address.prefix
            raise StoreUnavailable(STORE, f"the server is a cluster: set ?prefix={{{prefix}}} in the store's URL")

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def _bounded(self, work: Callable[[], Awaitable[T]]) -> T:
        try:
            await self._gate.enter()
        except TimeoutError as error:
            raise self._unavailable(str(error)) from error
        try:
            async with asyncio.timeout(self._bound):
                return await work()
        except (TimeoutError, RedisTimeout) as error:
            self._gate.turn_away()
            await self._drop_idle()
            raise self._unavailable(f"no answer within {self._bound:g} s") from error
        except (LostConnection, OSError) as error:
            await self._drop_idle()
            raise self._unavailable(str(error)) from error
        except RedisError as error:
            raise self._unavailable(str(error)) from error
        finally:
            self._gate.leave()

    async def _drop_idle(self) -> None:
        # What broke one connection has most likely broken those that lie idle.
        await self._pool.disconnect(inuse_connections=False)

    def _unavailable(self, reason: str) -> StoreUnavailable:
        if self._address.password:
            reason = reason.replace(self._address.password, "***")
        return StoreUnavailable(STORE, f"{self._address.host}:{self._address.port}: {reason}")
