"""A second process beside a test: takes turns, holds a turn, or begins work under an Idempotency-Key.

::

    python turn_worker.py take PLACE SESSION NAME TURNS   a line per finished turn, then it ends
    python turn_worker.py hold PLACE SESSION              a line once inside a turn; it never leaves
    python turn_worker.py nap PLACE SESSION               a line once the question is stored; when it is written a line
                                                          it answers, leaves, and prints another
    python turn_worker.py once PLACE SESSION KEY          a line once the effect is stored; no answer
"""

import asyncio
import random
import sys
from collections.abc import Callable, Coroutine
from typing import Any

from store_places import Place, opened, place_of

from wenmai.memory.idempotency import Claim, WorkResult
from wenmai.memory.session_memory import SessionMemory
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs

NPC = "assistant"
REQUEST = {"query": "第一条是什么？"}


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
    assert await logs.complete(Scope(), thread, stored[1], content=f"answer to {name}") is not None


async def take(place: Place, session_id: str, name: str, turns: str) -> None:
    """Take so many turns, one after the other, whoever else wants the thread."""
    async with opened(place) as (memory, logs):
        session = await memory.session(session_id)
        for number in range(int(turns)):
            async with memory.thread_lock.hold(Scope(), ThreadKey(session_id, NPC)):
                await answer_slowly(logs, session, f"{name}-{number}")
            print(number, flush=True)  # noqa: T201 — the test reads it


async def hold(place: Place, session_id: str) -> None:
    """Enter a turn and stay."""
    async with opened(place) as (memory, _), memory.thread_lock.hold(Scope(), ThreadKey(session_id, NPC)):
        print("inside", flush=True)  # noqa: T201 — the test reads it
        await asyncio.Event().wait()


async def nap(place: Place, session_id: str) -> None:
    """Ask, and answer when told to."""
    async with opened(place) as (memory, logs):
        session, thread = await memory.session(session_id), ThreadKey(session_id, NPC)
        async with memory.thread_lock.hold(Scope(), thread):
            stored = await session.append(
                [{"role": "user", "content": "nap"}, {"role": "assistant", "content": "", "completed": False}]
            )
            print("asked", flush=True)  # noqa: T201 — the test reads it
            await asyncio.to_thread(sys.stdin.readline)
            assert await logs.complete(Scope(), thread, stored[1], content="answer to nap") is not None
        print("left", flush=True)  # noqa: T201


async def once(place: Place, session_id: str, key: str) -> None:
    """Append the question that the key names, then hang before the answer."""
    async with opened(place) as (memory, _):
        session = await memory.session(session_id)

        async def work(claim: Claim) -> WorkResult:
            await session.append([{"role": "user", "content": REQUEST["query"], "id": claim.message_id}])
            print("effect", flush=True)  # noqa: T201 — the test reads it
            await asyncio.Event().wait()
            return WorkResult({}, "", "")

        await memory.idempotency.once(Scope(), key, REQUEST, session_id, work)


COMMANDS: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {"take": take, "hold": hold, "nap": nap, "once": once}

if __name__ == "__main__":
    asyncio.run(COMMANDS[sys.argv[1]](place_of(sys.argv[2]), *sys.argv[3:]))
