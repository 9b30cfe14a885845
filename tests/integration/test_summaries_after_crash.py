"""Summaries on real stores: a process killed between two batches, and one that finds the rest."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest
from cli_process import SECONDS, environment, wenmai
from program import Program

from postgres_server import PostgresServer
from wenmai.memory import derived
from wenmai.memory.extractive_summary import extract
from wenmai.memory.library import open_memory
from wenmai.memory.summaries import SUMMARY_TOKENS, ThreadSummary
from wenmai.scope import Scope
from wenmai.stores import lease
from wenmai.text.tokens import estimate_tokens

pytestmark = pytest.mark.xdist_group("postgresql")

TURNS = 40
TURN = [{"role": "user", "content": "I live in Leeds."}, {"role": "assistant", "content": "Noted."}]

SUMMARISE_AND_DIE = """
import asyncio, os, signal, sys
from datetime import timedelta
from wenmai.stores import lease
from wenmai.memory.library import open_memory
from wenmai.memory.summaries import ExtractiveWriter

class Mortal(ExtractiveWriter):
    batch_tokens = 100
    batches = 0

    async def write(self, *arguments):
        self.batches += 1
        if self.batches == 4:
            os.kill(os.getpid(), signal.SIGKILL)
        return await super().write(*arguments)

lease.LEASE = timedelta(seconds=0.5)

async def main():
    async with open_memory(sys.argv[1]) as memory:
        memory.summaries.writer = Mortal(len)
        session = await memory.session("s")
        for number in range(40):
            question = {"role": "user", "content": f"Question {number}: I live at {number} Elm Road, next to the mill."}
            await session.append([question, {"role": "assistant", "content": f"Answer {number}, noted."}])
        await memory.derived.catch_up()

asyncio.run(main())
"""
"""Appends turns and is killed while it summarises them."""

REBUILD_AND_DIE = """
import asyncio, os, signal, sys
from wenmai.clock import system_clock
from wenmai.memory import rebuilding
from wenmai.memory.library import Memory
from wenmai.memory.summaries import Summaries
from wenmai.stores.opening import open_store

rebuilding.PAGE = 1
where, discard = sys.argv[2], Summaries.discard
discarded = []

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def discard_and_die(self, scope, thread):
    await discard(self, scope, thread)
    discarded.append(thread)
    if where == "discard" and len(discarded) == 2:
        die()

async def main():
    Summaries.discard = discard_and_die
    async with open_store(sys.argv[1], clock=system_clock) as store:
        memory = Memory(store.documents, store.logs)
        memory.derived.start()
        await rebuilding.rebuild_summaries(
            memory, store.documents, store.logs, on_progress=lambda done: done == 2 and die()
        )

asyncio.run(main())
"""
"""Rebuilds the summaries thread by thread, and is killed between two steps of the second, or when two are done."""


async def summary_at(url: str) -> ThreadSummary | None:
    """Of the session that the killed process left."""
    async with open_memory(url) as memory:
        session = await memory.find("s")
        return None if session is None else await session.summary()


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
async def test_a_summary_that_a_kill_cut_short_is_completed(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stored batches stand, and the sweep of another process adds the rest: the same as without the kill."""
    for module in (lease, derived):
        monkeypatch.setattr(module, "LEASE", timedelta(seconds=0.5))
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.store() if backend == "postgresql" else f"sqlite:///{tmp_path}/wenmai.db"
    program = tmp_path / "summarise_and_die.py"
    program.write_text(SUMMARISE_AND_DIE, encoding="utf-8")
    assert Program([str(program), url], env=environment()).wait(SECONDS) == -9
    left = await summary_at(url)
    assert left is not None
    assert (left.version, 0 < left.covered_message_count < 2 * TURNS - 10) == (3, True)
    async with open_memory(url) as memory:
        assert await memory.derived.sweep() == 1
        async with asyncio.timeout(SECONDS):
            while memory.derived.lag.threads:  # noqa: ASYNC110 — the killed process still holds the lease
                await asyncio.sleep(0.05)
        session = await memory.session("s")
        found, messages = await session.summary(), [message async for message in session.history()]
        assert found is not None
        assert found.covered_message_count == 2 * TURNS - 10
        whole = extract([], messages[: found.covered_message_count], SUMMARY_TOKENS, estimate_tokens)
        assert set(left.text.splitlines()) & set(found.text.splitlines())
        assert found.text.splitlines()[0] == whole[0]
        await session.delete()
        await memory.derived.sweep()
        await memory.derived.catch_up(SECONDS)
        assert await memory.summaries.get(Scope(), session._thread) is None


async def test_summaries_are_rebuilt_by_a_command(tmp_path: Path) -> None:
    """Of all threads or of one session; what was stored before is replaced, whatever it was."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_memory(url) as memory:
        sessions = [await memory.session(name) for name in ("a", "b")]
        for session in sessions:
            for _ in range(10):
                await session.append(TURN)
        await memory.derived.catch_up(SECONDS)
        await sessions[1].append(TURN)
    for arguments, said in (
        (("--session", "b"), "the summaries of 1 thread are up to date\n"),
        ((), "the summaries of 2 threads are up to date\n"),
    ):
        done = wenmai("rebuild", "summaries", "--store", url, *arguments, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, said), done.stderr
    missing = wenmai("rebuild", "summaries", "--store", url, "--session", "c", folder=tmp_path)
    assert (missing.returncode, "no such session: c" in missing.stderr) == (1, True)
    async with open_memory(url) as memory:
        for name, covered in (("a", 10), ("b", 12)):
            opened = await memory.session(name)
            found = await opened.summary()
            assert found is not None
            assert (found.version, found.covered_message_count) == (1, covered)


@pytest.mark.parametrize("killed_at", ["discard", "progress"])
async def test_a_rebuild_that_was_killed_loses_nothing_and_goes_on(killed_at: str, tmp_path: Path) -> None:
    """The sweep of another process makes the summary that was deleted; the command rebuilds only what is left."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    names = ["a", "b", "c"]
    async with open_memory(url) as memory:
        for name in names:
            await (await memory.session(name)).append(TURN * 10)
        await memory.derived.catch_up(SECONDS)
    program = tmp_path / "rebuild_and_die.py"
    program.write_text(REBUILD_AND_DIE, encoding="utf-8")
    assert Program([str(program), url, killed_at], env=environment()).wait(SECONDS) == -9
    async with open_memory(url) as memory:
        found = [await (await memory.session(name)).summary() for name in names]
        assert found.count(None) == (1 if killed_at == "discard" else 0)
        await memory.derived.sweep()
        await memory.derived.catch_up(SECONDS)
        assert None not in [await (await memory.session(name)).summary() for name in names]
    left = {"discard": "2 threads", "progress": "1 thread"}[killed_at]
    for threads in (left, "3 threads"):
        done = wenmai("rebuild", "summaries", "--store", url, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"the summaries of {threads} are up to date\n"), done.stderr
