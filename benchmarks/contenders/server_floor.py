"""The bare drivers: one statement or one pipeline that checks nothing, on as many connections as Wenmai takes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from benchmarks.contenders import WINDOW, RoleAndContent, library

CONNECTIONS = 10

_TABLE = """
CREATE TABLE bench_messages (
  session text NOT NULL, seq bigint NOT NULL, role text NOT NULL, content text NOT NULL, at timestamptz NOT NULL,
  PRIMARY KEY (session, seq)
)"""
_INSERT = """
INSERT INTO bench_messages
SELECT $1, $2 + number, role, content, now()
FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS u (role, content, number)"""
_TURN = f"""
WITH old AS MATERIALIZED (
  SELECT seq, content FROM bench_messages WHERE session = $1 ORDER BY seq DESC LIMIT {WINDOW - 2}
), fresh AS (
  INSERT INTO bench_messages
  SELECT $1, (SELECT max(seq) FROM old) + number, role, content, now()
  FROM unnest($2::text[], $3::text[]) WITH ORDINALITY AS u (role, content, number)
  RETURNING seq, content
)
SELECT seq, content FROM old UNION ALL SELECT seq, content FROM fresh ORDER BY seq"""  # noqa: S608 — a number of ours


class AsyncpgFloor:
    """A statement that inserts the two messages and gives the last ten; it numbers wrongly if two come at once."""

    def __init__(self, connections: list[Any]) -> None:
        self._idle = connections
        self._places = asyncio.Semaphore(len(connections))

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        roles, contents = map(list, zip(*messages, strict=True))
        await self._fetch(_INSERT, session, 0, roles, contents)

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        rows = await self._fetch(_TURN, session, ["user", "assistant"], [question, answer])
        return [row[1] for row in rows]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        rows = await self._fetch("SELECT count(*) FROM bench_messages WHERE session = $1", session)
        found: int = rows[0][0]
        return found

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return {}

    async def _fetch(self, sql: str, *arguments: object) -> list[Any]:
        async with self._places:
            connection = self._idle.pop()
            rows: list[Any] = await connection.fetch(sql, *arguments)
            self._idle.append(connection)
            return rows


class RedisFloor:
    """``RPUSH`` and ``LRANGE`` in one pipeline on a list of contents."""

    def __init__(self, client: Any) -> None:
        self._client = client

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`."""
        await self._client.rpush(session, *(content for _, content in messages))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        pipeline = self._client.pipeline(transaction=False)
        pipeline.rpush(session, question, answer)
        pipeline.lrange(session, -WINDOW, -1)
        window: list[str] = (await pipeline.execute())[1]
        return window

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        found: int = await self._client.llen(session)
        return found

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        return {}


@asynccontextmanager
async def on_postgresql(url: str) -> AsyncIterator[AsyncpgFloor]:
    """The floor on PostgreSQL."""
    asyncpg = library("asyncpg")
    connections = [await asyncpg.connect(url) for _ in range(CONNECTIONS)]
    await connections[0].execute(_TABLE)
    yield AsyncpgFloor(connections)
    for connection in connections:
        await connection.close()


@asynccontextmanager
async def on_redis(url: str) -> AsyncIterator[RedisFloor]:
    """The floor on Redis."""
    pool = library("redis.asyncio").BlockingConnectionPool.from_url(
        url, max_connections=CONNECTIONS, decode_responses=True
    )
    client = library("redis.asyncio").Redis(connection_pool=pool)
    yield RedisFloor(client)
    await client.aclose()
    await pool.aclose()
