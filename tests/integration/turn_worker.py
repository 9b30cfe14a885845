"""A second process beside a test: takes turns, holds a turn, or begins work under an Idempotency-Key.

::

    python turn_worker.py take STORE_FILE SESSION NAME TURNS   a line per finished turn, then it ends
    python turn_worker.py hold STORE_FILE SESSION              a line once inside a turn; it never leaves
    python turn_worker.py once STORE_FILE SESSION KEY          a line once the effect is stored; no answer
"""

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from wenmai.clock import Clock, system_clock
from wenmai.memory.idempotency import message_id_for
from wenmai.memory.manager import Memory, SessionMemory, required
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Logs
from wenmai.stores.registry import open_store

NPC = "assistant"
REQUEST = {"query": "第一条是什么？"}


@asynccontextmanager
async def opened(path: object, *, clock: Clock = system_clock) -> AsyncIterator[tuple[Memory, Logs]]:
    """The memory over a file, and the log beneath it."""
    url = f"sqlite:///{path}"
    async with open_store(url, clock=clock) as store:
        documents, logs = required(store, url)
        yield Memory(documents, logs, clock=clock), logs


async def answer_slowly(logs: Logs, session: SessionMemory, name: str) -> None:
    """The work of a turn: the question and an unfinished answer, some thinking, the answer."""
    stored = await session.append(
        [
            {"role": "user", "content": name},
            {"role": "assistant", "content": "", "completed": False},
        ]
    )
    await asyncio.sleep(random.random() * 0.01)  # noqa: S311 — where turns meet should differ from run to run
    await session.append([{"role": "assistant", "content": f"more on {name}"}])
    await asyncio.sleep(random.random() * 0.01)  # noqa: S311
    thread = ThreadKey(session.session_id, NPC)
    assert await logs.settle(Scope(), thread, stored[1].seq, content=f"answer to {name}") is not None


async def take(path: str, session_id: str, name: str, turns: str) -> None:
    """Take so many turns, one after the other, whoever else wants the thread."""
    async with opened(path) as (memory, logs):
        session = await memory.session(session_id)
        for number in range(int(turns)):
            async with memory.turns.turn(Scope(), ThreadKey(session_id, NPC)):
                await answer_slowly(logs, session, f"{name}-{number}")
            print(number, flush=True)  # noqa: T201 — the test reads it


async def hold(path: str, session_id: str) -> None:
    """Enter a turn and stay."""
    async with opened(path) as (memory, _), memory.turns.turn(Scope(), ThreadKey(session_id, NPC)):
        print("inside", flush=True)  # noqa: T201 — the test reads it
        await asyncio.Event().wait()


async def once(path: str, session_id: str, key: str) -> None:
    """Append the question that the key names, then hang before the answer."""
    async with opened(path) as (memory, _):
        session = await memory.session(session_id)

        async def work(_session_id: str) -> dict[str, Any]:
            await session.append([{"role": "user", "content": REQUEST["query"], "id": message_id_for(key)}])
            print("effect", flush=True)  # noqa: T201 — the test reads it
            await asyncio.Event().wait()
            return {}

        await memory.idempotency.once(Scope(), key, REQUEST, session_id, work)


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"take": take, "hold": hold, "once": once}

if __name__ == "__main__":
    asyncio.run(COMMANDS[sys.argv[1]](*sys.argv[2:]))
