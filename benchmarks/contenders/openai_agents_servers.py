"""The OpenAI Agents SDK's ``SQLAlchemySession`` over asyncpg, and its ``RedisSession``: one engine, one client."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.contenders import WINDOW, RoleAndContent, library
from benchmarks.contenders.openai_agents import items_of
from benchmarks.contenders.server_floor import CONNECTIONS


class ServerSessions:
    """A session object per session, all of them kept: they hold no connection."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        self._make = make
        self._open: dict[str, Any] = {}

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        self._open[session] = self._make(session)
        await self._open[session].add_items(items_of(messages))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        opened = self._open[session]
        await opened.add_items(items_of([("user", question), ("assistant", answer)]))
        return [item["content"] for item in await opened.get_items(WINDOW)]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return len(await self._open[session].get_items())

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return {}


@asynccontextmanager
async def on_postgresql(url: str) -> AsyncIterator[ServerSessions]:
    """Its tables in a PostgreSQL database."""
    session = library("agents.extensions.memory.sqlalchemy_session").SQLAlchemySession
    engine = library("sqlalchemy.ext.asyncio").create_async_engine(
        url.replace("postgresql://", "postgresql+asyncpg://", 1), pool_size=CONNECTIONS, max_overflow=0
    )
    await session("first", engine=engine, create_tables=True).get_items(1)
    yield ServerSessions(lambda name: session(name, engine=engine))
    await engine.dispose()


@asynccontextmanager
async def on_redis(url: str) -> AsyncIterator[ServerSessions]:
    """Its keys on a Redis server."""
    session = library("agents.extensions.memory.redis_session").RedisSession
    redis = library("redis.asyncio")
    pool = redis.BlockingConnectionPool.from_url(url, max_connections=CONNECTIONS)
    client = redis.Redis(connection_pool=pool)
    yield ServerSessions(lambda name: session(name, redis_client=client))
    await client.aclose()
    await pool.aclose()
