"""Encryption over the life of a store: another master key, an erased user and a restored backup."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_process import wenmai as run_wenmai
from http_service import open_service

import wenmai
from wenmai.clock import MovableClock
from wenmai.errors import Conflict, InvalidInput, SessionNotFound, StoreUnavailable, Undecipherable
from wenmai.interchange import export_lines
from wenmai.memory.library import Memory, MemoryPolicy
from wenmai.memory.retention import Retention, RetentionPolicy
from wenmai.scope import Scope
from wenmai.stores.encryption.ciphers import SEALED
from wenmai.stores.encryption.settings import Encryption, new_master_key
from wenmai.stores.opening import encrypted_part
from wenmai.stores.sqlite import query_readonly

FIRST, SECOND = new_master_key("first"), new_master_key("second")
"""Master keys."""
ERIN, OTHER = Scope(user_id="erin"), Scope(user_id="other")


@asynccontextmanager
async def opened(folder: Path, master_keys: str = FIRST) -> AsyncIterator[Memory]:
    """The memory in the folder, whose data keys are in a file of their own."""
    encryption = Encryption(master_keys=master_keys, keys_store=f"sqlite:///{folder}/keys.db")
    async with wenmai.open(f"sqlite:///{folder}/w.db", store_policy="encrypt", encryption=encryption) as memory:
        yield memory
        await memory.derived.catch_up()


async def say(memory: Memory, scope: Scope, text: str, session_id: str = "") -> None:
    """One message in the session."""
    session = await memory.session(session_id or f"s-{scope.user_id}", scope=scope)
    await session.append([{"role": "user", "content": text}])


async def heard(memory: Memory, scope: Scope, session_id: str = "") -> list[str]:
    """What the user said in the session."""
    session = await memory.session(session_id or f"s-{scope.user_id}", scope=scope)
    return [message.content for message in await session.messages()]


async def contents(folder: Path) -> list[tuple[object, ...]]:
    """What is stored of the messages."""
    url = f"sqlite:///{folder}/w.db"
    return [tuple(row) for row in await query_readonly(url, "SELECT content FROM messages ORDER BY thread, seq")]


def rewrap(folder: Path) -> str:
    """Replace the first master key by the second; the command's output."""
    (folder / "master").write_text(f"{SECOND}\n{FIRST}\n")
    settings = {
        "WENMAI_MASTER_KEYS_FILE": str(folder / "master"),
        "WENMAI_KEYS_STORE": f"sqlite:///{folder}/keys.db",
        "WENMAI_STORE": f"sqlite:///{folder}/w.db",
    }
    return run_wenmai("encryption", "rewrap", folder=folder, settings=settings).stdout


async def test_a_master_key_is_replaced_without_rewriting_what_was_said(tmp_path: Path) -> None:
    """Both are needed until the data keys are wrapped again; then the former one is refused and not needed."""
    async with opened(tmp_path) as memory:
        await say(memory, ERIN, "about zebras")
        await say(memory, OTHER, "about giraffes")
    async with opened(tmp_path, f"{SECOND},{FIRST}") as memory:
        await say(memory, ERIN, "and quaggas")
    with pytest.raises(InvalidInput, match="no key with the id first"):
        async with opened(tmp_path, SECOND):
            pass
    before = await contents(tmp_path)
    assert rewrap(tmp_path) == "2 data keys wrapped again; the only master key in use is second\n"
    assert await contents(tmp_path) == before
    with pytest.raises(InvalidInput, match="no key with the id second"):
        async with opened(tmp_path):
            pass
    async with opened(tmp_path, SECOND) as memory:
        assert await heard(memory, ERIN) == ["about zebras", "and quaggas"]
        assert await heard(memory, OTHER) == ["about giraffes"]


async def test_a_process_that_was_not_restarted_wraps_no_keys_with_a_replaced_master_key(tmp_path: Path) -> None:
    """They would be lost with it. It goes on for the users whose keys it has, and refuses new ones."""
    async with opened(tmp_path) as stale:
        await say(stale, ERIN, "about zebras")
        rewrap(tmp_path)
        await say(stale, ERIN, "and quaggas")
        with pytest.raises(StoreUnavailable, match="the master key first was replaced"):
            await say(stale, OTHER, "about giraffes")
    async with opened(tmp_path, SECOND) as memory:
        assert await heard(memory, ERIN) == ["about zebras", "and quaggas"]
        await say(memory, OTHER, "about giraffes")
        assert await heard(memory, OTHER) == ["about giraffes"]


async def test_a_backup_stays_unreadable_after_its_user_was_erased(tmp_path: Path) -> None:
    """Restored, it is whole for others. For the user it is refused, until an erasure; then the user begins anew."""
    async with opened(tmp_path) as memory:
        await say(memory, ERIN, "about zebras")
        await say(memory, OTHER, "about giraffes")
        await memory.derived.catch_up()
    shutil.copy(tmp_path / "w.db", tmp_path / "backup.db")
    async with opened(tmp_path) as memory:
        receipt = await memory.erasures.erase(ERIN)
        assert {"what": "data keys", "where": "sqlite", "count": 1} in [
            {"what": each.what, "where": each.where, "count": each.count} for each in receipt.erased
        ]
        await say(memory, ERIN, "back again")
        assert await heard(memory, ERIN) == ["back again"]
    shutil.copy(tmp_path / "backup.db", tmp_path / "w.db")
    async with opened(tmp_path) as memory:
        assert await heard(memory, OTHER) == ["about giraffes"]
        with pytest.raises(Undecipherable, match="is gone"):
            await heard(memory, ERIN)
        assert await memory.recall("zebras", scope=ERIN) == []
        assert (await memory.erasures.erase(ERIN)).left == 0
        await say(memory, ERIN, "anew")
        assert await heard(memory, ERIN) == ["anew"]


async def test_a_user_who_comes_back_during_erasures_can_read_what_is_left(tmp_path: Path) -> None:
    """Another process creates sessions with a key in its cache; whatever it has stored after all is readable."""
    async with opened(tmp_path) as eraser, opened(tmp_path) as writer:

        async def write(first: int, last: int) -> None:
            for number in range(first, last):
                with suppress(SessionNotFound):  # erased meanwhile
                    await say(writer, ERIN, f"message {number}", f"s{number}")

        for start in range(0, 50, 10):
            writing = asyncio.create_task(write(start, start + 10))
            with suppress(Conflict):  # left to the background
                await eraser.erasures.erase(ERIN)
            await writing
        await write(50, 55)
    messages = [f"message {number}" for number in range(55)]
    async with opened(tmp_path) as memory:
        kept = [stored.record.session_id for stored in (await memory.sessions.list(ERIN)).items]
        assert {f"s{number}" for number in range(50, 55)} <= {*kept}
        for session_id in kept:
            # An id whose session was being erased was not free; the message went to a session with a new id.
            said = [f"message {session_id[1:]}"] if session_id[1:].isdigit() else messages
            assert set(await heard(memory, ERIN, session_id)) <= set(said)


async def test_a_user_who_came_back_is_recalled_by_a_process_that_knows_the_former_key(tmp_path: Path) -> None:
    """Erased and anew in one process; the other finds at once what was said since."""
    async with opened(tmp_path) as one, opened(tmp_path) as other:
        await say(other, ERIN, "about zebras")
        await one.erasures.erase(ERIN)
        await say(one, ERIN, "about giraffes")
        await one.derived.catch_up()
        assert [found.text for found in await other.recall("giraffes", scope=ERIN)] == ["about giraffes"]
        assert await other.recall("zebras", scope=ERIN) == []


async def test_a_lost_key_does_not_keep_others_from_their_retention() -> None:
    """Sessions that cannot be decrypted stay until their user is erased; the sweep goes on."""
    clock, kept = MovableClock(), RetentionPolicy(default=Retention.of_days(sessions=1))
    policy = MemoryPolicy(session_lifetime=timedelta(hours=1), retention=kept)
    opening = wenmai.open(
        "memory://", store_policy="encrypt", encryption=Encryption(master_keys=FIRST), policy=policy, clock=clock
    )
    async with opening as memory:
        for scope in (ERIN, OTHER):
            await say(memory, scope, "about zebras")
        await memory.erasures._data.forget_key(ERIN)
        clock.advance(timedelta(days=2))
        assert await memory.retention.run() == 1
        assert (await memory.sessions.list(OTHER)).items == []
        assert (await memory.erasures.erase(ERIN)).left == 0


async def test_a_lost_key_is_503_and_says_nothing_of_what_was_stored(tmp_path: Path) -> None:
    """For the user whose key is lost; others are served, and administrators find the threads of both."""
    async with open_service(tmp_path, store_policy="encrypt", master_keys=FIRST, sample_sites=()) as service:
        clients = [service.client_of(x_user_id=user) for user in ("erin", "other")]
        for client in clients:
            created = await client.post("/v1/sessions", json={"title": "Zebras"})
            assert created.status_code == 201, created.text
            said = {"messages": [{"role": "user", "content": "Zebras sleep."}]}
            await client.post(f"/v1/sessions/{created.json()['session_id']}/messages", json=said)
        encrypted = encrypted_part(service.engine.store)
        assert encrypted is not None
        await encrypted.keys.forget(ERIN)
        lost, kept = [await client.get("/v1/sessions") for client in clients]
        listed = await service.client.get("/v1/threads")
    assert (lost.status_code, kept.status_code) == (503, 200)
    assert {(each["user_id"], each["title"]) for each in listed.json()["threads"]} == {
        ("erin", ""),
        ("other", "Zebras"),
    }
    assert lost.json()["type"] == "urn:problem:wenmai:undecipherable"
    assert "Zebras" not in lost.text


async def test_everything_that_reads_gives_what_was_said(tmp_path: Path) -> None:
    """After a restart: answers of Idempotency-Keys, messages, summaries, preferences, traces and exports."""
    settings: dict[str, Any] = {"store_policy": "encrypt", "master_keys": FIRST}
    query, key = "我的手机13800138000，请问祠堂是什么时候建的？", {"Idempotency-Key": "k"}
    body = {"npc_id": "ancestor_yan", "query": query, "session_id": "s1"}
    async with open_service(tmp_path, **settings) as service:
        first = await service.client.post("/api/v1/npc/chat", json=body, headers=key)
        assert first.status_code == 200, first.text
        for number in range(8):
            await service.ask(f"第{number}条家训是什么？", session_id="s1")
        await service.client.put("/api/v1/npc/sessions/s1/preference", json={"interest_tags": ["斑马"]})
        await service.engine.memory.derived.catch_up()
    async with open_service(tmp_path, **settings) as service:
        client, memory = service.client, service.engine.memory
        again = await client.post("/api/v1/npc/chat", json=body, headers=key)
        messages = (await client.get("/v1/sessions/s1/messages", params={"npc_id": "ancestor_yan"})).json()
        trace = (await client.get(f"/api/v1/npc/traces/{first.json()['trace_id']}")).json()
        session = await memory.find("s1", persona_id="ancestor_yan")
        assert session is not None
        summary = await session.summary()
        lines = b"".join([line async for line in export_lines(memory, Scope(), traces=True)]).decode()
    assert again.json() == first.json()
    assert query in str(messages)
    assert query in str(trace)
    assert summary is not None
    assert "祠堂" in str(summary)
    assert lines.count(query) >= 2, "the message and the trace"
    assert "斑马" in lines
    assert SEALED not in lines
    assert all(word.encode() not in (tmp_path / "wenmai.db").read_bytes() for word in (query, "13800138000", "斑马"))
