"""Erasing a user removes everything, everywhere, also what a running turn stores later and what a crash interrupts."""

import asyncio
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from secrets import token_hex
from typing import Any

import apsw
import asyncpg
import msgspec
import pytest
from cli_process import SECONDS, environment, wenmai
from msgspec import UNSET
from program import Program
from redis import Redis

from opensearch_server import OpenSearchServer
from postgres_server import PostgresServer
from scripted_model import scripted_model
from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.clock import MovableClock
from wenmai.engine import Engine
from wenmai.errors import SessionNotFound
from wenmai.memory.episode_entries import entries_of
from wenmai.memory.erasure import ERASURES_SCOPE, GRACE
from wenmai.memory.erasure_receipts import ErasureReceipt, Receipts
from wenmai.memory.library import open_memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.user_data import user_records
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import ErasureRecord, Message

ERIN, OTHER = Scope("default", "default", "erin"), Scope("default", "default", "other")
PERSONA = "ancestor_yan"


@pytest.fixture
def clock() -> MovableClock:
    """A clock that the test moves."""
    return MovableClock()


async def ask(engine: Engine, scope: Scope, query: str, **fields: Any) -> TurnAnswer:
    """One question of the user."""
    return await engine.chat.ask(TurnRequest(scope=scope, persona_id=PERSONA, query=query, **fields))


async def converse(engine: Engine, scope: Scope) -> None:
    """Two sessions with records of many kinds."""
    session_id = f"s-{scope.user_id}"
    await ask(engine, scope, "请问严氏家训有哪些？", session_id=session_id, trace_id="own-trace")
    await ask(engine, scope, "第一条是什么？", session_id=session_id, idempotency_key="k")
    await ask(engine, scope, "祠堂是哪一年建的？", session_id=f"{session_id}-2")
    await engine.memory.preferences.set(scope, session_id, PreferenceChange(tone="casual"))
    await engine.memory.derived.catch_up(10)


async def stored(engine: Engine, scope: Scope) -> dict[str, int]:
    """What is stored of the user, by kind."""
    found: dict[str, int] = {}
    documents = engine.store.documents
    assert documents is not None
    for of in user_records():
        found[of.spec.collection] = len((await documents.list(scope, of, limit=500)).items)
    for session_id in (f"s-{scope.user_id}", f"s-{scope.user_id}-2"):
        assert engine.store.logs is not None
        for thread in await engine.store.logs.threads(scope, session_id):
            found["messages"] = found.get("messages", 0) + thread.message_count
    found["usage"] = len(await engine.memory.usage.keys_of_user(scope))
    if engine.memory.episodes is not None:
        found["search entries"] = await engine.memory.episodes.count(scope)
    return {kind: count for kind, count in found.items() if count}


def keys_with(url: str, text: str) -> list[bytes]:
    """The keys of a Redis server whose values have the text."""
    with Redis.from_url(url.partition("?")[0]) as client:
        return [key for key in client.scan_iter() if text.encode() in (client.dump(key) or b"")]


async def search_owners(url: str) -> set[str]:
    """The users whom the tables of a search index name; empty for a store without such tables."""
    sql = "SELECT user_id FROM search_partitions"
    if url.startswith("sqlite"):
        with closing(apsw.Connection(url.removeprefix("sqlite:///"))) as connection:
            return {user for (user,) in connection.execute(sql)}
    if url.startswith("postgresql"):
        database: Any = await asyncpg.connect(url)
        try:
            return {row["user_id"] for row in await database.fetch(sql)}
        finally:
            await database.close()
    return set()


@pytest.mark.each_store
async def test_an_erased_user_leaves_nothing_and_other_users_keep_everything(engine: Engine) -> None:
    """The receipt counts what was stored, and a search finds nothing of the user."""
    await converse(engine, ERIN)
    await converse(engine, OTHER)
    before, others = await stored(engine, ERIN), await stored(engine, OTHER)
    servers = [url for url in (engine.settings.store, engine.settings.hot) if url.startswith("redis")]
    assert all([await asyncio.to_thread(keys_with, url, "s-erin") for url in servers])

    receipt = await engine.memory.erasures.erase(ERIN)

    assert {item.what: item.count for item in receipt.erased} == before
    assert before["messages"] == 6
    assert (receipt.left, receipt.continued) == (0, UNSET)
    assert await stored(engine, ERIN) == {}
    assert await stored(engine, OTHER) == others
    owners = await search_owners(engine.settings.store)
    assert "erin" not in owners
    assert not any(owner.startswith("emptied/") for owner in owners), "a row below the highest number is deleted"
    assert not any([await asyncio.to_thread(keys_with, url, "s-erin") for url in servers])
    again = await engine.memory.erasures.erase(ERIN)
    assert (again.erased, again.left) == ([], 0)
    assert again.erasure_id != receipt.erasure_id


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("opensearch", marks=pytest.mark.xdist_group("opensearch")),
        pytest.param("milvus", marks=pytest.mark.xdist_group("milvus")),
    ],
)
async def test_a_user_is_erased_from_other_search_stores(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Where they have the messages too, and where they have the recall index alone."""
    store, search, where = f"sqlite:///{tmp_path}/wenmai.db", "", "milvus"
    if backend == "opensearch":
        server: OpenSearchServer = request.getfixturevalue("opensearch_server")
        store, where = f"{server.url(f'test{token_hex(4)}')}?timeout=20", "opensearch"
    else:
        search = request.getfixturevalue("conformance_milvus")
    erin = Scope("erasure", token_hex(4), "erin")
    other = erin._replace(user_id="other")
    async with open_memory(store, search=search) as memory:
        for scope in (erin, other):
            session = await memory.session(scope=scope)
            await session.append([{"role": "user", "content": "I live in Leeds."}] * 3)
        await memory.derived.catch_up(30)
        receipt = await memory.erasures.erase(erin)
        entries = next(item for item in receipt.erased if item.what == "search entries")
        assert (entries.where, entries.count, receipt.left) == (where, 3, 0)
        assert any(text.startswith(where) for text in receipt.later)
        assert await memory.recall("Where do I live?", scope=erin) == []
        assert len(await memory.recall("Where do I live?", scope=other, unit="message")) == 3


async def test_what_a_running_turn_stores_later_is_erased_too(engine_settings: dict[str, str]) -> None:
    """The turn that a model answers stores nothing any more; those that waited for the thread are refused."""
    async with scripted_model() as model, engine_at(**engine_settings, **model.settings) as engine:
        await converse(engine, ERIN)
        model.answers.clear()
        model.answer_wanted.clear()
        said = {"session_id": "s-erin", "query": "严氏祠堂是哪一年建的？"}
        running = asyncio.create_task(ask(engine, ERIN, **said, trace_id="running"))
        await model.answer_wanted.wait()
        waiting = [
            asyncio.create_task(ask(engine, ERIN, **said, trace_id="waiting")),
            asyncio.create_task(ask(engine, ERIN, **said, idempotency_key="waiting")),
        ]
        await asyncio.sleep(0.1)
        receipt = await engine.memory.erasures.erase(ERIN)
        model.answers.set()
        await running
        refused = await asyncio.gather(*waiting, return_exceptions=True)
        await engine.memory.derived.catch_up(10)

        assert [type(each) for each in refused] == [SessionNotFound, SessionNotFound]
        assert receipt.left == 0
        left = await stored(engine, ERIN)
        assert set(left) <= {"idempotent_turns"}, "a claim without a text, until the erasure is final"
        await ask(engine, ERIN, "请问严氏家训有哪些？", session_id="s-erin")
        assert (await stored(engine, ERIN))["messages"] == 2


@pytest.mark.each_store
async def test_an_erasure_under_load_removes_what_was_asked_before(engine: Engine) -> None:
    """Turns of the user that begin before and during it, in new and in the same sessions; others are not disturbed."""
    asked: dict[tuple[Scope, str], datetime] = {}

    async def turn(scope: Scope, number: int) -> None:
        await asyncio.sleep(number * 0.004)
        query = f"请问严氏家训有哪些？第{number}问"
        asked[scope, query] = engine.clock()
        with suppress(SessionNotFound):
            await ask(engine, scope, query, session_id=f"s-{scope.user_id}" if number % 3 else None)

    turns = [asyncio.create_task(turn(scope, number)) for number in range(24) for scope in (ERIN, OTHER)]
    await asyncio.sleep(0.05)
    receipt = await engine.memory.erasures.erase(ERIN)
    await asyncio.gather(*turns)
    await engine.memory.derived.catch_up(10)

    before = {query for (scope, query), at in asked.items() if scope == ERIN and at < receipt.started_at}
    assert before
    assert before & set(await questions(engine, ERIN)) == set()
    assert len(await questions(engine, OTHER)) == 24


async def questions(engine: Engine, scope: Scope) -> list[str]:
    """All questions of the user that are stored."""
    found = []
    for stored_session in (await engine.memory.sessions.list(scope, limit=500)).items:
        thread = stored_session.record.thread(PERSONA)
        async for message in engine.memory.transcript.read_all(scope, thread):
            found += [message.content] if message.role == "user" else []
    return found


async def test_two_processes_that_erase_a_user_at_once_make_one_erasure(tmp_path: Path) -> None:
    """One record, one receipt with all counts, and one entry of the audit log for its begin and for its end."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_memory(url) as one, open_memory(url) as other:
        for number in range(6):
            session = await one.session(f"s{number}", scope=ERIN)
            await session.append([{"role": "user", "content": "I live in Leeds."}])
        first, second = await asyncio.gather(one.erasures.erase(ERIN), other.erasures.erase(ERIN))
        assert first == second
        assert {item.what: item.count for item in first.erased}["messages"] == 6
        assert len((await one.erasures._documents.list(ERASURES_SCOPE, ErasureRecord)).items) == 1
        acts = [entry.act for entry in await one.audit.entries(ERIN.tenant_id)]
        assert acts == ["user_erased", "erasure_began"]


async def test_work_received_before_an_erasure_was_asked_for_again_is_refused(clock: MovableClock) -> None:
    """The erasure had been interrupted before; its second caller means the time in between too."""
    async with open_memory("memory://", clock=clock) as memory:
        await memory.session("s1", scope=ERIN)
        await memory.erasures._begun(ERIN, "")
        clock.advance(timedelta(minutes=5))
        received_at = clock()
        assert not await memory.erasures.was_erased(ERIN, received_at)
        clock.advance(timedelta(minutes=1))
        receipt = await memory.erasures.erase(ERIN)
        assert await memory.erasures.was_erased(ERIN, received_at)
        assert receipt.started_at == clock()


ERASE_AND_DIE = """
import asyncio, os, signal, sys
from wenmai.memory import user_data
from wenmai.memory.library import open_memory
from wenmai.scope import Scope
from wenmai.stores.records import Session

async def main():
    async with open_memory(sys.argv[1]) as memory:
        documents = memory.erasures._data._documents
        delete, deleted = documents.delete, []

        async def mortal(scope, of, key, **how):
            if of is Session:
                deleted.append(key)
                if len(deleted) == 4:
                    os.kill(os.getpid(), signal.SIGKILL)
            return await delete(scope, of, key, **how)

        documents.delete = mortal
        user_data._CONCURRENT = 1
        await memory.erasures.erase(Scope(user_id="erin"))

asyncio.run(main())
"""
"""Is killed when three of the user's sessions are removed."""

SESSIONS = 8


@pytest.mark.parametrize("backend", ["sqlite", "postgresql"])
@pytest.mark.xdist_group("postgresql")
async def test_an_erasure_that_a_kill_cut_short_is_completed(
    backend: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The service that starts next removes the rest; the receipt counts everything."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.store() if backend == "postgresql" else f"sqlite:///{tmp_path}/wenmai.db"
    erin = Scope(user_id="erin")
    async with open_memory(url) as memory:
        for number in range(SESSIONS):
            session = await memory.session(f"s-{number}", scope=erin)
            await session.append([{"role": "user", "content": "I live in Leeds."}])
        await memory.derived.catch_up(10)
    program = tmp_path / "erase_and_die.py"
    program.write_text(ERASE_AND_DIE, encoding="utf-8")
    killed = Program([str(program), url], env=environment())
    assert await asyncio.to_thread(killed.wait, SECONDS) == -9

    async with engine_at(url) as engine:
        documents = engine.store.documents
        assert documents is not None
        await engine.memory.erasures.resume()  # or the run at the start, which may be faster
        receipt = (await documents.list(ERASURES_SCOPE, ErasureRecord)).items[0].record.receipt
        assert await stored(engine, erin) == {}
    assert {item["what"]: item["count"] for item in receipt["erased"]}["messages"] == SESSIONS
    assert (receipt["left"], receipt["user_id"], receipt["continued"]) == (0, "", True)


async def test_entries_of_killed_work_go_when_the_erasure_has_settled(clock: MovableClock) -> None:
    """Entries that nothing else would ever remove; those of a session that the user has begun since are kept."""
    async with open_memory("memory://", clock=clock) as memory:
        before = await memory.session("before", scope=ERIN)
        incarnation = (await before.record()).incarnation
        await memory.erasures.erase(ERIN)
        after = await memory.session("after", scope=ERIN)
        await after.append([{"role": "user", "content": "I live in York."}])
        await memory.derived.catch_up(10)
        assert memory.episodes is not None
        message = Message(
            id="m", seq=1, turn_id=1, role="user", content="I live in Leeds.", timestamp=clock(), persona_id="assistant"
        )
        late = entries_of(ThreadKey("before", "assistant", incarnation), [message], 1)
        await memory.episodes.add(ERIN, list(late))
        assert await memory.episodes.count(ERIN) == 2
        await memory.erasures.resume()
        assert await memory.episodes.count(ERIN) == 2, "work may still run"
        clock.advance(GRACE)
        await memory.erasures.resume()
        assert await memory.episodes.count(ERIN) == 1
        assert [item.text for item in await memory.recall("Where do I live?", scope=ERIN)] == ["I live in York."]


async def test_no_record_names_an_erased_user(tmp_path: Path, clock: MovableClock) -> None:
    """Those of the site neither, though this user was the first in it."""
    file = tmp_path / "wenmai.db"
    async with open_memory(f"sqlite:///{file}", clock=clock) as memory:
        session = await memory.session(scope=ERIN)
        await session.append([{"role": "user", "content": "I live in Leeds."}])
        await memory.derived.catch_up(10)
        await memory.erasures.erase(ERIN)
        clock.advance(GRACE)
        await memory.erasures.resume()
    with closing(apsw.Connection(str(file))) as connection:
        sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%user_id%'"
        tables = [name for (name,) in connection.execute(sql)]
        naming = [
            table
            for table in tables
            if list(connection.execute(f"SELECT 1 FROM {table} WHERE user_id = 'erin'"))  # noqa: S608 — own tables
        ]
    assert naming == []


def test_the_command_prints_a_receipt_that_can_be_verified(tmp_path: Path) -> None:
    """Signed with the secret of the settings; a changed receipt, and another secret, are noticed."""
    url, key = f"sqlite:///{tmp_path}/wenmai.db", {"WENMAI_RECEIPT_KEY": "of this test"}
    asyncio.run(_say(url))
    erased = wenmai("erase", "--user", "erin", "--store", url, folder=tmp_path, settings=key)
    receipt = msgspec.json.decode(erased.stdout, type=ErasureReceipt)
    assert {item.what: item.count for item in receipt.erased}["messages"] == 1
    assert any("VACUUM" in text for text in receipt.later)
    file = tmp_path / "receipt.json"
    file.write_text(erased.stdout, encoding="utf-8")
    valid = wenmai("erase", "--verify", file, folder=tmp_path, settings=key)
    assert "valid: erin of default/default was erased at" in valid.stdout
    with closing(apsw.Connection(str(tmp_path / "wenmai.db"))) as connection:
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    left = b"".join(path.read_bytes() for path in tmp_path.glob("wenmai.db*")).lower()
    assert b"erasures" in left
    assert b"leeds" not in left, "after what the receipt names, it is in no byte"
    assert not Receipts(key="another").is_valid(receipt)
    assert not Receipts(key="of this test").is_valid(msgspec.structs.replace(receipt, user_id="other"))


async def _say(url: str) -> None:
    async with open_memory(url) as memory:
        session = await memory.session("s-erin", scope=Scope(user_id="erin"))
        await session.append([{"role": "user", "content": "I live in Leeds."}])
        await memory.derived.catch_up(10)
