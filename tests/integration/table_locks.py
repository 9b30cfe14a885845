"""Hold PostgreSQL writes up where a test wants it: before an answer is stored, or before its key knows it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import asyncpg

SECONDS = 20.0

# A table lock would not do: a statement that is only prepared takes one too, and a process paused then keeps it.
_FUNCTION = """
CREATE OR REPLACE FUNCTION wait_until_released() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN PERFORM pg_advisory_xact_lock_shared(TG_RELID::bigint); RETURN NEW; END $$"""
_WAITING = "SELECT count(*) FROM pg_locks, pg_sleep(0.02) WHERE NOT granted AND locktype = 'advisory'"
_CUT_OFF = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND locktype = 'advisory'"


@asynccontextmanager
async def held_at(database: str, table: str, event: Literal["INSERT", "UPDATE"] = "INSERT") -> AsyncIterator[None]:
    """Let every insert into the table, or update of it, wait for as long as the context lasts."""
    connection = await asyncpg.connect(database)
    try:
        trigger = f"wait_before_{event.lower()}"
        known = "SELECT count(*) FROM pg_trigger WHERE tgrelid = $1::text::regclass AND tgname = $2"
        if not await connection.fetchval(known, table, trigger):
            await connection.execute(_FUNCTION)
            when = f"BEFORE {event} ON {table} FOR EACH ROW"
            await connection.execute(f"CREATE TRIGGER {trigger} {when} EXECUTE FUNCTION wait_until_released()")
        await connection.fetchval("SELECT pg_advisory_lock($1::text::regclass::oid::bigint)", table)
        yield
    finally:
        await connection.close()


async def somebody_waits(database: str) -> None:
    """Return when a held write waits."""
    connection = await asyncpg.connect(database)
    try:
        async with asyncio.timeout(SECONDS):
            while not await connection.fetchval(_WAITING):
                pass
    finally:
        await connection.close()


async def cut_off_who_waits(database: str) -> None:
    """Let the held writes fail, as if they had never been sent."""
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(_CUT_OFF)
    finally:
        await connection.close()
