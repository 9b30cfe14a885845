"""A durable store with a cache in front of it, opened by several processes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

import pytest
from redis import Redis

from redis_server import RedisServer
from wenmai.clock import Clock, system_clock
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache import CachedStore, open_cache
from wenmai.stores.contracts import Documents, Logs, Store
from wenmai.stores.opening import open_store
from wenmai.stores.records import NewMessage, Session

OWNER = Scope("tenant", "site", "owner")
OTHER = Scope("tenant", "site", "other")
THREAD = ThreadKey("s-1", "elder")
TURN = [NewMessage(role="user", content="祠堂在哪里？"), NewMessage(role="assistant", content="在村口。")]


class Place:
    """A durable store and a Redis server; opens cached stores over them, each like another process."""

    def __init__(self, url: str, server: RedisServer, stack: AsyncExitStack) -> None:
        self.url = url
        self.prefix = f"test-{token_hex(4)}"
        self.redis_url = f"{server.url}?prefix={self.prefix}&command_timeout=5"
        self.client = Redis(port=server.port)
        self._stack = stack

    async def process(self, *, clock: Clock = system_clock, max_age: timedelta | None = None, **more: Any) -> "Process":
        """Another process over the same stores; keywords are further ones of :func:`open_cache`."""
        durable = await self._stack.enter_async_context(open_store(self.url, clock=clock))
        before = self._subscribers()
        if max_age is not None:
            more["max_age"] = max_age
        cached = await self._stack.enter_async_context(open_cache(durable, self.redis_url, clock=clock, **more))
        process = Process(cached, durable)
        await eventually(lambda: self._has_more_subscribers_than(before))
        return process

    def _subscribers(self) -> int:
        count: int = self.client.pubsub_numsub(f"{self.prefix}:session:changes")[0][1]
        return count

    async def _has_more_subscribers_than(self, count: int) -> bool:
        return self._subscribers() > count

    def redis_keys(self) -> list[str]:
        """All keys on the server with this place's prefix."""
        return sorted(key.decode() for key in self.client.scan_iter(f"{self.prefix}:*"))


class Process:
    """A cached store, and the durable store behind it."""

    def __init__(self, cached: CachedStore, durable: Store) -> None:
        assert durable.documents is not None
        assert durable.logs is not None
        self.cached = cached
        self.documents: Documents = cached.documents
        self.logs: Logs = cached.logs
        self.durable_documents: Documents = durable.documents
        self.durable_logs: Logs = durable.logs

    async def begin(self, session_id: str = "s-1", *, lifetime: int = 3600) -> None:
        """Begin a session of the owner."""
        record = Session(
            session_id=session_id,
            expires_at=datetime.now(UTC) + timedelta(seconds=lifetime),
            lifetime_seconds=lifetime,
        )
        await self.documents.put(OWNER, record, expected=0)


async def eventually(true: Callable[[], Awaitable[bool]], seconds: float = 5.0) -> None:
    """Wait until it is true."""
    async with asyncio.timeout(seconds):
        while not await true():  # noqa: ASYNC110 — what another process receives sets no event here
            await asyncio.sleep(0.002)


class Counted:
    """Counts the calls of a store's method."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
        self.calls = 0
        method = getattr(type(of), name)

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return await method(*arguments, **named)

        monkeypatch.setattr(type(of), name, counted)
