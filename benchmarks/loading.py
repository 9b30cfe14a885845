"""Filling a store with many sessions in seconds: one is written through the store, and its rows are copied by SQL."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from urllib.parse import urlsplit

import apsw

import wenmai
from benchmarks.talk import history
from wenmai.stores.records import Session

MESSAGES = 20
PATTERN = "pattern"
"""The session that is copied."""

_RECORD = (*Session.__struct_fields__, "tenant_id", "site_id", "user_id", "version", "created_at", "updated_at")
_MESSAGE = "turn_id, role, content, timestamp, tokens, completed, given_id, name, tool_calls, tool_call_id, metadata"
_SESSIONS = f"""
WITH RECURSIVE numbers (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number < {{sessions}})
INSERT INTO conversations ({", ".join(_RECORD)})
SELECT {", ".join("'loaded-' || number" if each == "session_id" else each for each in _RECORD)}
FROM conversations, numbers WHERE session_id = '{PATTERN}'"""  # noqa: S608 — names of ours
_THREADS_POSTGRESQL = f"""
INSERT INTO threads (conversation, npc_id, label)
SELECT row_id, 'assistant', 'abcd1234' FROM conversations WHERE session_id <> '{PATTERN}'"""  # noqa: S608
_THREADS_SQLITE = f"""
INSERT INTO threads (tenant_id, site_id, user_id, session_id, npc_id, label)
SELECT tenant_id, site_id, user_id, session_id, 'assistant', 'abcd1234'
FROM conversations WHERE session_id <> '{PATTERN}'"""  # noqa: S608
_MESSAGES = f"""
INSERT INTO messages (thread, seq, {_MESSAGE}) SELECT t.thread, m.seq, {_MESSAGE}
FROM threads t, messages m WHERE t.thread <> 1 AND m.thread = 1 {{which}} ORDER BY t.thread, m.seq"""  # noqa: S608


async def load(url: str, sessions: int) -> None:
    """Make a store at ``url`` with the sessions ``loaded-1`` … of twenty messages each."""
    async with wenmai.open(url) as memory:
        session = await memory.session(PATTERN)
        said = [{"role": role, "content": content} for role, content in history(1, MESSAGES)]
        await session.append(said)
    async with (_on_sqlite if url.startswith("sqlite:") else _on_postgresql)(url) as execute:
        for statement in _statements(url, sessions):
            await execute(statement)


def _statements(url: str, sessions: int) -> Iterator[str]:
    yield _SESSIONS.format(sessions=sessions)
    if url.startswith("sqlite:"):
        yield _THREADS_SQLITE
        yield _MESSAGES.format(which="")
    else:
        yield _THREADS_POSTGRESQL
        # In service the turns of all sessions lie mixed: no two messages of a thread in one page.
        for seq in range(1, MESSAGES + 1):
            yield _MESSAGES.format(which=f"AND m.seq = {seq}")
        yield "CHECKPOINT"


Execute = Callable[[str], Awaitable[object]]


@asynccontextmanager
async def _on_sqlite(url: str) -> AsyncIterator[Execute]:
    connection = apsw.Connection(str(Path(urlsplit(url).path)))
    connection.pragma("synchronous", "OFF")

    async def execute(statement: str) -> object:
        return connection.execute(statement)

    yield execute
    connection.close()


@asynccontextmanager
async def _on_postgresql(url: str) -> AsyncIterator[Execute]:
    connection = await import_module("asyncpg").connect(url)
    yield connection.execute
    await connection.close()
