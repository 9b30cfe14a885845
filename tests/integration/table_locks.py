"""Hold a PostgreSQL statement up where a test wants it: before an answer is stored, or before its key knows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg

SECONDS = 20.0


@asynccontextmanager
async def held_at(database: str, table: str) -> AsyncIterator[None]:
    """Let whoever writes to the table wait for as long as the context lasts."""
    connection = await asyncpg.connect(database)
    try:
        async with connection.transaction():
            await connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
            yield
    finally:
        await connection.close()


async def somebody_waits(database: str) -> None:
    """Return when a statement waits for a lock."""
    connection = await asyncpg.connect(database)
    waiting = "SELECT count(*) FROM pg_locks, pg_sleep(0.02) WHERE NOT granted"
    try:
        async with asyncio.timeout(SECONDS):
            while not await connection.fetchval(waiting):
                pass
    finally:
        await connection.close()


async def cut_off_who_waits(database: str) -> None:
    """Let the statements that wait for a lock fail, as if they had never been sent."""
    connection = await asyncpg.connect(database)
    try:
        await connection.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted")
    finally:
        await connection.close()
