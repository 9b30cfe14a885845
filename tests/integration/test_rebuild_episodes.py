"""A lost recall index is built again by a command that may be killed anywhere."""

import asyncio
from pathlib import Path

import pytest
from cli_process import SECONDS, environment, wenmai
from embedding_victim import EMBEDDED_TOGETHER, RecordingEmbedder
from program import Program

from embedding_server import embedding_server
from postgres_server import PostgresServer
from wenmai.cli.app import app
from wenmai.clock import system_clock
from wenmai.memory import episodes
from wenmai.memory.library import Memory, open_memory, required
from wenmai.memory.rebuilding import rebuild_episodes
from wenmai.scope import Scope
from wenmai.stores.milvus.address import parse_url
from wenmai.stores.milvus.lite import lite_server
from wenmai.stores.opening import open_store, open_stores

pytestmark = pytest.mark.xdist_group("postgresql")

SESSIONS = 6

REBUILD_AND_DIE = """
import asyncio, os, signal, sys
from wenmai.clock import system_clock
from wenmai.memory import rebuilding
from wenmai.memory.library import Memory
from wenmai.stores.opening import open_stores

rebuilding.PAGE = 2

async def main():
    async with open_stores(sys.argv[1], search=sys.argv[2], clock=system_clock) as (store, _):
        memory = Memory(store.documents, store.logs, search=store.search)
        memory.derived.start()

        def die(done):
            if done == 4:
                os.kill(os.getpid(), signal.SIGKILL)

        await rebuilding.rebuild_episodes(memory, store.documents, store.logs, on_progress=die)

asyncio.run(main())
"""
"""Rebuilds two threads at a time, and is killed when four are done."""


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
async def test_a_rebuild_that_was_killed_goes_on(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """The command indexes the threads that are left, nothing twice; the next rebuild begins again."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.store() if backend == "postgresql" else f"sqlite:///{tmp_path}/wenmai.db"
    async with open_memory(url) as memory:
        await talk(memory)
    await lose_the_index(url)
    program = tmp_path / "rebuild_and_die.py"
    program.write_text(REBUILD_AND_DIE, encoding="utf-8")
    assert Program([str(program), url, ""], env=environment()).wait(SECONDS) == -9
    assert await recalled(url) == 4
    done = wenmai("rebuild", "episodes", "--store", url, "--embedder", "none", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "the messages of 2 threads are indexed\n"), done.stderr
    assert await recalled(url) == SESSIONS
    await lose_the_index(url)
    async with open_store(url, clock=system_clock) as store:
        documents, logs = required(store, url)
        memory = Memory(documents, logs, search=store.search)
        memory.derived.start()
        assert await rebuild_episodes(memory, documents, logs) == (SESSIONS, 0)
        await memory.derived.stop(SECONDS)
    assert await recalled(url) == SESSIONS


@pytest.mark.xdist_group("milvus")
async def test_a_killed_rebuild_of_an_index_in_milvus_goes_on(conformance_milvus: str, tmp_path: Path) -> None:
    """The transcripts are in SQLite. What the killed process has indexed stays, the rest is added by the next one."""
    url, file = f"sqlite:///{tmp_path}/wenmai.db", parse_url(conformance_milvus).file
    assert file is not None
    with lite_server(file) as address:
        search = f"milvus://{address.removeprefix('http://')}"
        async with open_memory(url, search=search) as memory:
            await talk(memory)
        await lose_the_index(url, search)
        program = tmp_path / "rebuild_and_die.py"
        program.write_text(REBUILD_AND_DIE, encoding="utf-8")
        assert Program([str(program), url, search], env=environment()).wait(SECONDS) == -9
        assert await recalled(url, search) == 4
        async with open_stores(url, search=search) as (store, _):
            documents, logs = required(store, url)
            memory = Memory(documents, logs, search=store.search)
            memory.derived.start()
            assert await rebuild_episodes(memory, documents, logs) == (2, 0)
            await memory.derived.stop(SECONDS)
        assert await recalled(url, search) == SESSIONS


async def test_a_rebuild_whose_embedder_fails_says_so_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The status is 1, the message says how to go on, and the command does so once the embedder answers.

    Also if the API key is wrong: that says nothing of the texts.
    """
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_memory(url) as memory:
        await talk(memory)
    monkeypatch.setattr("wenmai.resilience.work_queue.FIRST_RETRY_SECONDS", 0.01)
    monkeypatch.setenv("OPENAI_API_KEY", "key")
    monkeypatch.setenv("WENMAI_EMBEDDER", "openai:any")
    for status, expected in ((503, 1), (401, 1), (200, 0)):
        async with embedding_server(status=status) as (address, asked):
            monkeypatch.setenv("OPENAI_BASE_URL", address)
            assert await asyncio.to_thread(status_of, "rebuild", "episodes", "--store", url) == expected
        assert asked
        vectors = await embedded(url)
        assert vectors == (SESSIONS if status == 200 else 0)
        printed = capsys.readouterr()
        assert (printed.out == "the messages of 6 threads are indexed\n") == (expected == 0)
        assert ("not finished" in printed.err) == (expected == 1)
        assert ("run the same command" in printed.err) == (expected == 1)


async def embedded(url: str) -> int:
    """How many messages have a vector of the embedder."""
    async with open_memory(url, embedder="openai:any") as memory:
        sizes = [await memory.recalls.size(Scope(user_id=f"user-{number}")) for number in range(SESSIONS)]
    return sum(size.vectors for size in sizes)


def status_of(*arguments: str) -> int:
    """The exit status of the command, run in this process."""
    with pytest.raises(SystemExit) as ended:
        app(arguments)
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
async def test_a_killed_rebuild_for_a_new_embedder_embeds_no_text_twice(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed in the middle of a thread, the next one embeds the messages that are left."""
    monkeypatch.setattr(episodes, "EMBEDDED_TOGETHER", EMBEDDED_TOGETHER)
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.store() if backend == "postgresql" else f"sqlite:///{tmp_path}/wenmai.db"
    texts, log = [f"Casket {number} holds the ruby" for number in range(12)], tmp_path / "embedded"
    async with open_memory(url) as memory:
        await (await memory.session("s")).append([{"role": "user", "content": text} for text in texts])
        await memory.derived.catch_up(SECONDS)
    victim = Path(__file__).with_name("embedding_victim.py")
    assert Program([str(victim), url, str(log), "3"], env=environment()).wait(SECONDS) == -9
    assert len(log.read_text(encoding="utf-8").splitlines()) == 3 * EMBEDDED_TOGETHER
    async with open_store(url, clock=system_clock) as store:
        documents, logs = required(store, url)
        memory = Memory(documents, logs, search=store.search, embedder=RecordingEmbedder(log))
        memory.derived.start()
        assert await rebuild_episodes(memory, documents, logs) == (1, 0)
        size = await memory.recalls.size(Scope())
        assert (size.entries, size.vectors) == (len(texts), len(texts))
        await memory.derived.stop(SECONDS)
    assert sorted(log.read_text(encoding="utf-8").splitlines()) == sorted(texts)


async def talk(memory: Memory) -> None:
    """A message in a session of each user, indexed."""
    for number in range(SESSIONS):
        session = await memory.session(f"s{number}", scope=Scope(user_id=f"user-{number}"))
        await session.append([{"role": "user", "content": f"Casket {number} holds the ruby"}])
    await memory.derived.catch_up(SECONDS)


async def lose_the_index(url: str, search: str = "") -> None:
    """All entries are gone; the watermarks say that they are there."""
    async with open_stores(url, search=search) as (store, _):
        documents, logs = required(store, url)
        index = Memory(documents, logs, search=store.search).episodes
        assert index is not None
        assert store.search is not None
        for number in range(SESSIONS):
            found = await logs.threads(Scope(user_id=f"user-{number}"), f"s{number}")
            where = {"persona": [each.persona_id for each in found]}
            await store.search.remove(Scope(user_id=f"user-{number}"), index._collection, where=where)


async def recalled(url: str, search: str = "") -> int:
    """In how many sessions a message is found, each once."""
    async with open_stores(url, search=search) as (store, _):
        memory = Memory(*required(store, url), search=store.search)
        found = [await memory.recall("ruby", scope=Scope(user_id=f"user-{number}")) for number in range(SESSIONS)]
        assert max(map(len, found)) == 1
        return sum(map(len, found))
