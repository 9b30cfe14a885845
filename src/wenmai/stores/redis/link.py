"""Connections to the server: bounded in number and in time; every failure is a StoreUnavailable."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from redis.asyncio.connection import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeout

from wenmai.errors import InvalidInput, StoreUnavailable, WenmaiError
from wenmai.stores.redis.address import Address
from wenmai.stores.redis.admission import Admission
from wenmai.stores.redis.sentinels import primary_of
from wenmai.stores.redis.subscription import Subscription

T = TypeVar("T")
Word = str | bytes | int
"""A part of a command."""

STORE = "redis"
OLDEST_VERSION = 6
"""The oldest supported major version."""

NO_EVICTION = "noeviction"
"""The ``maxmemory-policy`` by which nothing is evicted."""


class Script:
    """A Lua script and its digest."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.digest: str = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Link:
    """A server and the pool of connections to it.

    A call takes at most ``connect_timeout``, if no connection is open, and then ``command_timeout``. While all
    connections are busy, callers wait; if the server stops answering, the first timeout fails all of them. Nothing is
    retried, except after a cluster's MOVED reply: the call is sent to the other node, which is used from then on until
    it fails. (All keys are in one slot, so there is one such node.)
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._admission = Admission(address.max_connections)
        self._home = None if address.sentinels else (address.host, address.port)
        self._node = self._home
        self._idle: list[Connection] = []
        self._open = True

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """The result of a script; its source is sent only if the server does not have it.

        Raises:
            StoreUnavailable: the server cannot be reached, does not answer in time, or refuses.
        """
        words = (len(keys), *keys, *arguments)

        async def exchange(connection: Connection) -> Any:
            try:
                return await _request(connection, "EVALSHA", script.digest, *words)
            except NoScriptError:
                return await _request(connection, "EVAL", script.source, *words)

        return await self._with_connection(exchange)

    async def run_each(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Word]]]) -> list[Any]:
        """The results of a script for each pair of keys and arguments, in one round trip.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        batch = [("EVALSHA", script.digest, len(keys), *keys, *arguments) for keys, arguments in calls]

        async def exchange(connection: Connection) -> list[Any]:
            await connection.send_packed_command(connection.pack_commands(batch))
            answers = [await _result_if_known(connection) for _ in batch]
            for at, words in enumerate(batch):
                if answers[at] is None:
                    answers[at] = await _request(connection, "EVAL", script.source, *words[2:])
            return answers

        return await self._with_connection(exchange) if batch else []

    async def command(self, *words: Word) -> Any:
        """The reply to one command.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        return await self._with_connection(lambda connection: _request(connection, *words))

    async def commands(self, batch: Sequence[Sequence[Word]]) -> list[Any]:
        """The replies to several commands in one round trip; not atomic.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """

        async def exchange(connection: Connection) -> list[Any]:
            await connection.send_packed_command(connection.pack_commands(batch))
            return [await connection.read_response() for _ in batch]

        return await self._with_connection(exchange) if batch else []

    async def subscribe(self, channel: str) -> Subscription:
        """Subscribe to a channel, over a connection of its own, which ``max_connections`` does not count.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        try:
            connection = await self._new_connection()
        except WenmaiError:
            raise
        except Exception as error:
            raise self._unavailable(str(error) or type(error).__name__) from error
        try:
            async with asyncio.timeout(self._address.connect_timeout + self._address.command_timeout):
                await _ensure_connected(connection)
                await _request(connection, "SUBSCRIBE", channel)
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, Exception):
                await self._switch_to(self._home)
                raise self._unavailable(str(error) or "no answer in time") from error
            raise
        return Subscription(connection, self._address.command_timeout, self._unavailable)

    async def check(self) -> None:
        """Return if the server answers, is recent enough, and supports the prefix.

        Raises:
            StoreUnavailable: it does not, is too old, or is a cluster and the prefix has no hash tag.
        """
        info = await self._info("server")
        version = info.get("redis_version", "0")
        if int(version.partition(".")[0]) < OLDEST_VERSION:
            raise self._unavailable(f"it is Redis {version}; version {OLDEST_VERSION} or later is needed")
        if info.get("redis_mode") == "cluster" and not self._address.hash_tag:
            raise self._unavailable(f"it is a cluster: set ?prefix={{{self._address.prefix}}} in the store's URL")

    async def check_eviction(self) -> None:
        """Return if the server refuses writes, rather than evict keys, when its memory is full.

        Raises:
            StoreUnavailable: it does not answer, or evicts keys.
        """
        policy = (await self._info("memory")).get("maxmemory_policy", NO_EVICTION)
        if policy != NO_EVICTION:
            reason = f"its maxmemory-policy is {policy}: it evicts parts of sessions when its memory is full; "
            wanted = f"set it to {NO_EVICTION}, or give a durable store and this server as --hot"
            raise self._unavailable(reason + wanted)

    async def _info(self, section: str) -> dict[str, str]:
        lines = (await self.command("INFO", section)).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def close(self) -> None:
        """Close all connections; those in use, when they are released."""
        self._open = False
        await self._switch_to(self._home)

    async def _with_connection(self, exchange: Callable[[Connection], Awaitable[T]]) -> T:
        """Run an exchange on a connection; one on which it failed or was cancelled half-way is closed.

        Raises:
            InvalidInput: a word is half a surrogate pair, which is no text.
            StoreUnavailable: any other exception of the driver.
        """
        try:
            await self._admission.acquire()
        except TimeoutError as error:
            raise self._unavailable(str(error)) from error
        try:
            return await self._follow(exchange)
        except (TimeoutError, RedisTimeout) as error:
            self._admission.fail_waiting()
            await self._switch_to(self._home)
            raise self._unavailable("no answer in time") from error
        except RedisError as error:
            if not isinstance(error, ResponseError) or isinstance(error, ReadOnlyError):
                # The idle connections are most likely broken too, or lead to the same replica.
                await self._switch_to(self._home)
            raise self._unavailable(str(error)) from error
        except UnicodeEncodeError as error:
            raise InvalidInput("record", error.object, "text that can be encoded") from error
        except WenmaiError:
            raise
        except Exception as error:
            await self._switch_to(self._home)
            raise self._unavailable(str(error) or type(error).__name__) from error
        finally:
            self._admission.release()

    async def _follow(self, exchange: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await self._exchange(exchange)
        except MovedError as moved:
            await self._switch_to((moved.host or self._address.host, moved.port))
            return await self._exchange(exchange)

    async def _exchange(self, exchange: Callable[[Connection], Awaitable[T]]) -> T:
        if not self._open:
            raise self._unavailable("the store is closed")
        connection = self._idle.pop() if self._idle else await self._new_connection()
        try:
            async with asyncio.timeout(self._address.connect_timeout) as limit:
                await _ensure_connected(connection)
                limit.reschedule(asyncio.get_running_loop().time() + self._address.command_timeout)
                answer = await exchange(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        await self._release(connection)
        return answer

    async def _release(self, connection: Connection) -> None:
        if self._open:
            self._idle.append(connection)
        else:
            await connection.disconnect()

    async def _switch_to(self, node: tuple[str, int] | None) -> None:
        """Close all idle connections; the next ones go to ``node``, or, if it is None, where the sentinels say."""
        self._node = node
        while self._idle:
            await self._idle.pop().disconnect(nowait=True)

    async def _new_connection(self) -> Connection:
        address = self._address
        if self._node is None:
            self._node = await primary_of(address)
        host, port = self._node
        return (SSLConnection if address.tls else Connection)(
            host=host,
            port=port,
            db=address.database,
            username=address.username,
            password=address.password,
            socket_connect_timeout=address.connect_timeout,
            socket_timeout=None,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )

    def _unavailable(self, reason: str) -> StoreUnavailable:
        if self._address.password:
            reason = reason.replace(self._address.password, "***")
        return StoreUnavailable(STORE, f"{self._address.host}:{self._address.port}: {reason}")


async def _request(connection: Connection, *words: Word) -> Any:
    await connection.send_command(*words)
    return await connection.read_response()


async def _result_if_known(connection: Connection) -> Any:
    """The result of a script, which is never nil; None if the server does not have the script."""
    try:
        return await connection.read_response()
    except NoScriptError:
        return None


async def _ensure_connected(connection: Connection) -> None:
    """Connect, or reconnect if the server has closed the idle connection."""
    if connection.is_connected and await connection.can_read():
        await connection.disconnect(nowait=True)
    if not connection.is_connected:
        await connection.connect()  # type: ignore[no-untyped-call] # redis-py does not say what it returns
