"""A large import is killed while it indexes; the next one finishes it."""

import asyncio
import json
from pathlib import Path

import pytest
from cli_process import SECONDS, Command, wenmai

from wenmai.clock import system_clock
from wenmai.memory.library import Memory, required
from wenmai.scope import Scope
from wenmai.stores.opening import open_store

SESSIONS, MESSAGES = 20, 100
USER = Scope(user_id="ann")


def fact(session: int) -> str:
    """A message that only one session has."""
    return f"Locker {7_000 + session} was left to the keeper"


async def indexed(memory: Memory) -> int:
    """How many messages of the user recall knows by words."""
    return (await memory.recalls.size(USER)).entries


@pytest.mark.timeout(60)
async def test_a_killed_import_is_resumed_and_recalled(tmp_path: Path) -> None:
    """No message is lost or stored twice, and all are indexed when the command ends, without the service."""
    url, file = f"sqlite:///{tmp_path}/wenmai.db", tmp_path / "talk.jsonl"
    with file.open("w", encoding="utf-8") as out:
        for number in range(SESSIONS * MESSAGES):
            session, message = divmod(number, MESSAGES)
            content = fact(session) if message == MESSAGES // 2 else f"Note {message}: the weather of day {number}"
            role = "assistant" if message % 2 else "user"
            out.write(json.dumps({"session_id": f"s{session}", "role": role, "content": content}) + "\n")
    arguments = ("import", file, "--store", url, "--user", USER.user_id)
    async with open_store(url, clock=system_clock) as store:
        memory = Memory(*required(store, url), search=store.search)
        first = Command(*arguments, folder=tmp_path)
        async with asyncio.timeout(SECONDS):
            while not await indexed(memory):  # noqa: ASYNC110 — of another process
                await asyncio.sleep(0.01)
        first.program.kill()
        await asyncio.to_thread(first.done)
        assert 0 < await indexed(memory) < SESSIONS * MESSAGES
        done = await asyncio.to_thread(wenmai, *arguments, folder=tmp_path)
        assert done.stdout == f"{SESSIONS} sessions (0 new), 0 messages added, {SESSIONS * MESSAGES} already stored\n"
        assert await indexed(memory) == SESSIONS * MESSAGES
        for session in (0, SESSIONS - 1):
            found = await memory.recall(f"Who got locker {7_000 + session}?", scope=USER)
            assert (found[0].session_id, found[0].text) == (f"s{session}", fact(session))
