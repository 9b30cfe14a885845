"""A durable store with the tiers in front of it, opened by several processes."""

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
from wenmai.stores.base import Documents, Logs, Store
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.registry import open_store
from wenmai.stores.tiers import TieredStore, open_tiers

OWNER = Scope("tenant", "site", "owner")
STRANGER = Scope("tenant", "site", "stranger")
THREAD = ThreadKey("s-1", "elder")
TURN = [NewMessage(role="user", content="祠堂在哪里？"), NewMessage(role="assistant", content="在村口。")]


class Place:
    """A durable store and a Redis server, and what opens tiered stores over them, each as another process would."""

    def __init__(self, url: str, server: RedisServer, stack: AsyncExitStack) -> None:
        self.url = url
        self.prefix = f"test-{token_hex(4)}"
        self.hot = f"{server.url}?prefix={self.prefix}&command_timeout=5"
        self.client = Redis(port=server.port)
        self._stack = stack

    async def process(self, *, clock: Clock = system_clock, bound: timedelta | None = None, **more: Any) -> "Process":
        """Another process over the same stores; keywords are further ones of :func:`open_tiers`."""
        durable = await self._stack.enter_async_context(open_store(self.url, clock=clock))
        before = self._listeners()
        if bound is not None:
            more["trust_bound"] = bound
        tiered = await self._stack.enter_async_context(open_tiers(durable, self.hot, clock=clock, **more))
        process = Process(tiered, durable)
        await eventually(lambda: self._more_listen_than(before))
        return process

    def _listeners(self) -> int:
        count: int = self.client.pubsub_numsub(f"{self.prefix}:session:changes")[0][1]
        return count

    async def _more_listen_than(self, count: int) -> bool:
        return self._listeners() > count

    def held(self) -> list[str]:
        """All keys on the server that are this place's."""
        return sorted(key.decode() for key in self.client.scan_iter(f"{self.prefix}:*"))


class Process:
    """A tiered store, and the durable store under it."""

    def __init__(self, tiered: TieredStore, durable: Store) -> None:
        assert durable.documents is not None
        assert durable.logs is not None
        self.tiered = tiered
        self.documents: Documents = tiered.documents
        self.logs: Logs = tiered.logs
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
        while not await true():  # noqa: ASYNC110 — what another process knows sets no event here
            await asyncio.sleep(0.002)


class Counted:
    """Counts the calls of a store's method, which still does what it did."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, of: object, name: str) -> None:
        self.calls = 0
        method = getattr(type(of), name)

        async def counted(*arguments: Any, **named: Any) -> Any:
            self.calls += 1
            return await method(*arguments, **named)

        monkeypatch.setattr(type(of), name, counted)
