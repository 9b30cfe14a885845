"""What SQLite's writer remembers never differs from what the file says, whoever has changed it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

import wenmai
from wenmai import SessionMemory, WindowLimits
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.sqlite import SqliteStore, open_store, recent
from wenmai.stores.sqlite.logs import SqliteLogs
from wenmai.stores.sqlite.recent import PERSONAS, SESSIONS, TAIL, TAIL_BYTES

LIMITS = WindowLimits(messages=6, characters=None)


def pair(name: object) -> list[dict[str, Any]]:
    """A question and its answer."""
    return [{"role": "user", "content": f"q{name}"}, {"role": "assistant", "content": f"a{name}"}]


async def grown(session: SessionMemory, name: object, limits: WindowLimits = LIMITS) -> list[str]:
    """Append a turn; the window in the same step, after a check that a reader sees the same one."""
    _, window = await session.append_and_window(pair(name), limits)
    assert window == await session.window(limits)
    return [message.content for message in window.messages]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[wenmai.Memory]:
    """The memory over a file."""
    async with wenmai.open(f"sqlite:///{tmp_path}/recent.db") as opened:
        yield opened


async def test_a_window_in_the_same_step_is_the_one_that_a_reader_sees(memory: wenmai.Memory) -> None:
    """From the first turn on, past the window's length, past what is remembered, and for a long window."""
    session = await memory.session("talk")
    for number in range(2 * TAIL):
        window = await grown(session, number)
        assert window[-2:] == [f"q{number}", f"a{number}"]
    for messages in (1, TAIL, TAIL + 10, 400):
        await grown(session, "end", WindowLimits(messages=messages, characters=None))


async def test_a_turn_of_another_process_is_seen(memory: wenmai.Memory, tmp_path: Path) -> None:
    """Two stores on one file take turns in one thread: each continues where the other stopped."""
    async with wenmai.open(f"sqlite:///{tmp_path}/recent.db") as other:
        one, two = await memory.session("talk"), await other.session("talk")
        for number in range(4):
            await grown(one, f"one{number}")
            window = await grown(two, f"two{number}")
            assert window[-4:] == [f"qone{number}", f"aone{number}", f"qtwo{number}", f"atwo{number}"]
        assert [message.seq for message in await one.messages(100)] == list(range(1, 17))


async def test_an_unfinished_turn_stays_out_until_it_is_settled(tmp_path: Path) -> None:
    """Also for messages that join it later; settling brings the whole turn in."""
    async with open_store(f"sqlite:///{tmp_path}/recent.db", clock=wenmai.MovableClock()) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        session = await memory.session("talk")
        await grown(session, 1)
        question, placeholder = pair(2)
        stored = await session.append([question, {**placeholder, "completed": False}])
        for more in ("more", "still more"):
            _, window = await session.append_and_window([{"role": "assistant", "content": more}], LIMITS)
            assert [message.content for message in window.messages] == ["q1", "a1"]
        assert await grown(session, 3) == ["q1", "a1", "q3", "a3"]
        await store.logs.settle(Scope(), ThreadKey("talk", "assistant"), stored[1], content="a2")
        assert await grown(session, 4) == ["q3", "a3", "q4", "a4"]
        assert await grown(session, 5, WindowLimits(messages=20)) == [
            "q1", "a1", "q2", "a2", "more", "still more", "q3", "a3", "q4", "a4", "q5", "a5",
        ]  # fmt: skip


async def test_an_erased_thread_begins_again_and_a_deleted_session_is_refused(memory: wenmai.Memory) -> None:
    """What the writer remembers of them is forgotten with them."""
    session = await memory.session("talk")
    await grown(session, 1)
    await memory.transcript._logs.erase(Scope(), "talk", "assistant")
    assert await grown(session, 2) == ["q2", "a2"]
    await session.delete()
    with pytest.raises(SessionNotFound):
        await session.append(pair(3))
    again = await memory.session("talk")
    assert await grown(again, 4) == ["q4", "a4"]


async def test_a_commit_that_is_undone_leaves_no_trace(memory: wenmai.Memory) -> None:
    """Work that shared a commit with broken work is done again, with the numbers that it would have had."""
    session = await memory.session("talk")
    assert isinstance(memory.transcript._logs, SqliteLogs)

    def breaks(connection: apsw.Connection) -> None:
        connection.execute("DELETE FROM messages")
        raise ZeroDivisionError

    for number in range(20):
        broken = memory.transcript._logs._lanes.write(breaks)
        done = await asyncio.gather(grown(session, number), broken, return_exceptions=True)
        assert isinstance(done[1], ZeroDivisionError)
    assert [message.seq for message in await session.messages(100)] == list(range(1, 41))


async def test_a_change_of_the_sessions_record_counts_for_the_next_append(tmp_path: Path) -> None:
    """However lately the session was written to."""
    clock = wenmai.MovableClock()
    async with wenmai.open(f"sqlite:///{tmp_path}/clock.db", clock=clock) as memory:
        session = await memory.session("talk")
        await grown(session, 1)
        short = timedelta(hours=1)
        await memory.sessions.change(
            Scope(), "talk", lambda record: msgspec.structs.replace(record, lifetime_seconds=3600)
        )
        clock.advance(timedelta(days=29))
        await grown(session, 2)
        clock.advance(timedelta(days=1) + short)
        with pytest.raises(SessionExpired):
            await session.append(pair(3))


async def test_a_stranger_does_not_profit_from_what_the_owner_left_in_memory(memory: wenmai.Memory) -> None:
    """The owner's session, just written, is absent for another user."""
    await grown(await memory.session("talk"), 1)
    with pytest.raises(SessionNotFound):
        await memory.transcript.append(Scope(user_id="stranger"), ThreadKey("talk", "assistant"), pair(2))


async def test_more_sessions_than_are_remembered_lose_nothing(tmp_path: Path) -> None:
    """The oldest is forgotten and read again."""
    async with open_store(f"sqlite:///{tmp_path}/many.db", clock=wenmai.MovableClock()) as store:
        assert isinstance(store, SqliteStore)
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        sessions = [await memory.session(f"talk-{number}") for number in range(SESSIONS + 5)]
        for session in sessions:
            await session.append(pair(1))
        for session in (*sessions[:5], *sessions[-5:]):
            assert await grown(session, 2) == ["q1", "a1", "q2", "a2"]


async def remembered(store: SqliteStore) -> recent.Recent:
    """What the writer remembers, once all that was submitted is done."""
    return await store._lanes.write(store.logs._recent)


async def test_what_is_remembered_is_bounded_by_the_bytes_of_whole_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tool calls and metadata count as content does; all sessions together stay below one bound."""
    monkeypatch.setattr(recent, "BYTES", 1 << 20)
    async with open_store(f"sqlite:///{tmp_path}/large.db", clock=wenmai.MovableClock()) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        large = {"result": "y" * TAIL_BYTES}
        for extra in ({"tool_calls": [{"id": "1", **large}]}, {"metadata": large}, {"content": large["result"]}):
            session = await memory.session()
            await session.append([{"role": "assistant", "content": "", **extra}] * 20)
            assert (await remembered(store)).size < TAIL_BYTES
        for number in range(60):
            session = await memory.session(f"talk-{number}")
            await session.append([{"role": "assistant", "content": "", "metadata": {"result": "y" * 1_000}}] * 10)
        found = await remembered(store)
        assert 500_000 < found.size <= 1 << 20
        assert found.size == sum(each.counted for each in found._sessions.values())
        assert await grown(await memory.session("talk-0"), "end", WindowLimits(messages=2)) == ["qend", "aend"]


async def test_the_personas_that_are_remembered_of_a_session_are_bounded(tmp_path: Path) -> None:
    """Also those of appends that are refused; the others are read again when they are written to."""
    clock = wenmai.MovableClock()
    async with open_store(f"sqlite:///{tmp_path}/personas.db", clock=clock) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=clock)
        session = await memory.session("talk")
        for number in range(PERSONAS + 5):
            assert await grown(session.with_persona(f"n{number}"), 1) == ["q1", "a1"]
        found = await remembered(store)
        assert len(found._sessions[Scope(), "talk"].threads) == PERSONAS
        for number in range(PERSONAS + 5):
            assert await grown(session.with_persona(f"n{number}"), 2) == ["q1", "a1", "q2", "a2"]
        clock.advance(memory.policy.session_lifetime * 2)
        for number in range(PERSONAS + 5):
            with pytest.raises(SessionExpired):
                await session.with_persona(f"n{number}").append(pair(3))
        assert len(found._sessions[Scope(), "talk"].threads) <= PERSONAS


async def test_long_texts_are_not_kept_in_memory(memory: wenmai.Memory) -> None:
    """Windows over long messages are right all the same, and what is remembered of them is bounded."""
    session = await memory.session("talk")
    for number in range(12):
        await grown(session, f"{number}" + "长" * (TAIL_BYTES // 10))
    await grown(session, "short")
    await grown(session, "x" * (2 * TAIL_BYTES))
    await grown(session, "end")
