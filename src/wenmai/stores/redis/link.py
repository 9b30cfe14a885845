"""The connections to the server: bounded in number and in time, and every failure told in one way."""

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
from wenmai.stores.redis.gate import Gate
from wenmai.stores.redis.sentinels import primary_of
from wenmai.stores.redis.subscription import Subscription

T = TypeVar("T")
Word = str | bytes | int
"""A part of a command."""

STORE = "redis"
OLDEST = 6
"""The first major version that is supported."""

KEEPING = "noeviction"
"""The ``maxmemory-policy`` of a server that evicts nothing."""


class Script:
    """A Lua script and the digest by which the server knows it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


class Link:
    """A server and how it is spoken to.

    A call takes at most ``connect_timeout``, if no connection stands, and then ``command_timeout``. While all
    connections are busy, callers wait; if the server stops answering, the first timeout is everybody's. Nothing is
    tried twice, but what a cluster says another node has: that node is asked, and from then on asked first, until it
    fails. (All keys are in one slot, so there is one such node.)
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self._gate = Gate(address.max_connections)
        self._home = None if address.sentinels else (address.host, address.port)
        self._node = self._home
        self._idle: list[Connection] = []
        self._open = True

    async def run(self, script: Script, keys: Sequence[str], arguments: Sequence[Word]) -> Any:
        """What the script returns; the server is sent its source only if it does not know it.

        Raises:
            StoreUnavailable: the server cannot be reached, does not answer in time, or refuses.
        """
        words = (len(keys), *keys, *arguments)

        async def talk(connection: Connection) -> Any:
            try:
                return await _ask(connection, "EVALSHA", script.digest, *words)
            except NoScriptError:
                return await _ask(connection, "EVAL", script.source, *words)

        return await self._lend(talk)

    async def run_each(self, script: Script, calls: Sequence[tuple[Sequence[str], Sequence[Word]]]) -> list[Any]:
        """What the script returns for each pair of keys and arguments; they are sent together.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        batch = [("EVALSHA", script.digest, len(keys), *keys, *arguments) for keys, arguments in calls]

        async def talk(connection: Connection) -> list[Any]:
            await connection.send_packed_command(connection.pack_commands(batch))
            answers = [await _answer_if_known(connection) for _ in batch]
            for at, words in enumerate(batch):
                if answers[at] is None:
                    answers[at] = await _ask(connection, "EVAL", script.source, *words[2:])
            return answers

        return await self._lend(talk) if batch else []

    async def command(self, *words: Word) -> Any:
        """The answer to one command.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """
        return await self._lend(lambda connection: _ask(connection, *words))

    async def commands(self, batch: Sequence[Sequence[Word]]) -> list[Any]:
        """The answers to several commands that are sent together; others' writes may come between them.

        Raises:
            StoreUnavailable: as for :meth:`run`.
        """

        async def talk(connection: Connection) -> list[Any]:
            await connection.send_packed_command(connection.pack_commands(batch))
            return [await connection.read_response() for _ in batch]

        return await self._lend(talk) if batch else []

    async def subscribe(self, channel: str) -> Subscription:
        """Listen to a channel, over a connection of its own, which does not count for the bound.

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
                await _make_ready(connection)
                await _ask(connection, "SUBSCRIBE", channel)
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, Exception):
                await self._turn_to(self._home)
                raise self._unavailable(str(error) or "no answer in time") from error
            raise
        return Subscription(connection, self._address.command_timeout, self._unavailable)

    async def check(self) -> None:
        """Return if the server answers, is recent enough, and can hold keys of our prefix.

        Raises:
            StoreUnavailable: it does not, is too old, or is a cluster and the prefix has no hash tag.
        """
        told = await self._info("server")
        version = told.get("redis_version", "0")
        if int(version.partition(".")[0]) < OLDEST:
            raise self._unavailable(f"it is Redis {version}; version {OLDEST} or later is needed")
        if told.get("redis_mode") == "cluster" and not self._address.hash_tag:
            raise self._unavailable(f"it is a cluster: set ?prefix={{{self._address.prefix}}} in the store's URL")

    async def check_keeps(self) -> None:
        """Return if the server, when it is full, refuses writes and keeps what it has.

        Raises:
            StoreUnavailable: it does not answer, or evicts keys.
        """
        policy = (await self._info("memory")).get("maxmemory_policy", KEEPING)
        if policy != KEEPING:
            reason = f"its maxmemory-policy is {policy}, by which it evicts parts of sessions when its memory is full; "
            wanted = f"set it to {KEEPING}, or give a durable store and this server as --hot"
            raise self._unavailable(reason + wanted)

    async def _info(self, section: str) -> dict[str, str]:
        lines = (await self.command("INFO", section)).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    async def close(self) -> None:
        """Close all connections; those in use, when they are given back."""
        self._open = False
        await self._turn_to(self._home)

    async def _lend(self, talk: Callable[[Connection], Awaitable[T]]) -> T:
        """Let ``talk`` have a connection to itself; what fails or is cancelled half-way is not used again.

        Raises:
            InvalidInput: a word is half a surrogate pair, which is no text.
            StoreUnavailable: whatever else the driver raises.
        """
        try:
            await self._gate.enter()
        except TimeoutError as error:
            raise self._unavailable(str(error)) from error
        try:
            return await self._follow(talk)
        except (TimeoutError, RedisTimeout) as error:
            self._gate.turn_away()
            await self._turn_to(self._home)
            raise self._unavailable("no answer in time") from error
        except RedisError as error:
            if not isinstance(error, ResponseError) or isinstance(error, ReadOnlyError):
                # What broke one connection, or made its server a replica, has most likely done so to the idle ones.
                await self._turn_to(self._home)
            raise self._unavailable(str(error)) from error
        except UnicodeEncodeError as error:
            raise InvalidInput("record", error.object, "text that can be encoded") from error
        except WenmaiError:
            raise
        except Exception as error:
            await self._turn_to(self._home)
            raise self._unavailable(str(error) or type(error).__name__) from error
        finally:
            self._gate.leave()

    async def _follow(self, talk: Callable[[Connection], Awaitable[T]]) -> T:
        try:
            return await self._talk(talk)
        except MovedError as moved:
            await self._turn_to((moved.host or self._address.host, moved.port))
            return await self._talk(talk)

    async def _talk(self, talk: Callable[[Connection], Awaitable[T]]) -> T:
        if not self._open:
            raise self._unavailable("the store is closed")
        connection = self._idle.pop() if self._idle else await self._new_connection()
        try:
            async with asyncio.timeout(self._address.connect_timeout) as limit:
                await _make_ready(connection)
                limit.reschedule(asyncio.get_running_loop().time() + self._address.command_timeout)
                answer = await talk(connection)
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        await self._give_back(connection)
        return answer

    async def _give_back(self, connection: Connection) -> None:
        if self._open:
            self._idle.append(connection)
        else:
            await connection.disconnect()

    async def _turn_to(self, node: tuple[str, int] | None) -> None:
        """Leave all idle connections; the next ones go to ``node``, or, if it is None, where the sentinels say."""
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


async def _ask(connection: Connection, *words: Word) -> Any:
    await connection.send_command(*words)
    return await connection.read_response()


async def _answer_if_known(connection: Connection) -> Any:
    """The answer of a script, which is never nil; None if the server does not know the script."""
    try:
        return await connection.read_response()
    except NoScriptError:
        return None


async def _make_ready(connection: Connection) -> None:
    """Connect, or connect again if the server has closed the connection while it lay idle."""
    if connection.is_connected and await connection.can_read():
        await connection.disconnect(nowait=True)
    if not connection.is_connected:
        await connection.connect()  # type: ignore[no-untyped-call] # redis-py does not say what it returns
