"""The SQLite writer's cache is never stale, whichever process changes the file."""

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
from wenmai.stores.sqlite import SqliteStore, open_store, write_cache
from wenmai.stores.sqlite.logs import SqliteLogs
from wenmai.stores.sqlite.write_cache import MAX_SESSIONS, MAX_TAIL, MAX_TAIL_BYTES, MAX_THREADS

LIMITS = WindowLimits(messages=6, characters=None)


def pair(name: object) -> list[dict[str, Any]]:
    """A question and its answer."""
    return [{"role": "user", "content": f"q{name}"}, {"role": "assistant", "content": f"a{name}"}]


async def append_turn(session: SessionMemory, name: object, limits: WindowLimits = LIMITS) -> list[str]:
    """Append a turn; return the window of the same step, checked against the one that a reader sees."""
    _, window = await session.append_and_window(pair(name), limits)
    assert window == await session.window(limits)
    return [message.content for message in window.messages]


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[wenmai.Memory]:
    """The memory over a file."""
    async with wenmai.open(f"sqlite:///{tmp_path}/write_cache.db", store_policy="off") as opened:
        yield opened


async def test_the_window_of_an_append_equals_the_one_that_a_reader_sees(memory: wenmai.Memory) -> None:
    """From the first turn on, past the window's length, past the cached tail, and for a long window."""
    session = await memory.session("talk")
    for number in range(2 * MAX_TAIL):
        window = await append_turn(session, number)
        assert window[-2:] == [f"q{number}", f"a{number}"]
    for messages in (1, MAX_TAIL, MAX_TAIL + 10, 400):
        await append_turn(session, "end", WindowLimits(messages=messages, characters=None))


async def test_a_turn_of_another_process_is_seen(memory: wenmai.Memory, tmp_path: Path) -> None:
    """Two stores on one file append to one thread alternately: each continues where the other stopped."""
    async with wenmai.open(f"sqlite:///{tmp_path}/write_cache.db") as other:
        one, two = await memory.session("talk"), await other.session("talk")
        for number in range(4):
            await append_turn(one, f"one{number}")
            window = await append_turn(two, f"two{number}")
            assert window[-4:] == [f"qone{number}", f"aone{number}", f"qtwo{number}", f"atwo{number}"]
        assert [message.seq for message in await one.messages(100)] == list(range(1, 17))


async def test_an_unfinished_turn_is_hidden_until_it_is_completed(tmp_path: Path) -> None:
    """So are messages that join it later; completing shows the whole turn."""
    async with open_store(f"sqlite:///{tmp_path}/write_cache.db", clock=wenmai.MovableClock()) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        session = await memory.session("talk")
        await append_turn(session, 1)
        question, placeholder = pair(2)
        stored = await session.append([question, {**placeholder, "completed": False}])
        for more in ("more", "still more"):
            _, window = await session.append_and_window([{"role": "assistant", "content": more}], LIMITS)
            assert [message.content for message in window.messages] == ["q1", "a1"]
        assert await append_turn(session, 3) == ["q1", "a1", "q3", "a3"]
        await store.logs.complete(Scope(), ThreadKey("talk", "assistant"), stored[1], content="a2")
        assert await append_turn(session, 4) == ["q3", "a3", "q4", "a4"]
        assert await append_turn(session, 5, WindowLimits(messages=20)) == [
            "q1", "a1", "q2", "a2", "more", "still more", "q3", "a3", "q4", "a4", "q5", "a5",
        ]  # fmt: skip


async def test_an_erased_thread_restarts_and_a_deleted_session_is_refused(memory: wenmai.Memory) -> None:
    """Their cache entries are invalidated."""
    session = await memory.session("talk")
    await append_turn(session, 1)
    await memory.transcript._logs.erase(Scope(), "talk", "assistant")
    assert await append_turn(session, 2) == ["q2", "a2"]
    await session.delete()
    with pytest.raises(SessionNotFound):
        await session.append(pair(3))
    again = await memory.session("talk")
    assert await append_turn(again, 4) == ["q4", "a4"]


async def test_a_rollback_invalidates_the_cache(memory: wenmai.Memory) -> None:
    """Jobs that shared a transaction with a failed one are retried and get the same numbers."""
    session = await memory.session("talk")
    assert isinstance(memory.transcript._logs, SqliteLogs)

    def breaks(connection: apsw.Connection) -> None:
        connection.execute("DELETE FROM messages")
        raise ZeroDivisionError

    for number in range(20):
        broken = memory.transcript._logs._connections.write(breaks)
        done = await asyncio.gather(append_turn(session, number), broken, return_exceptions=True)
        assert isinstance(done[1], ZeroDivisionError)
    assert [message.seq for message in await session.messages(100)] == list(range(1, 41))


async def test_a_change_of_the_session_record_applies_to_the_next_append(tmp_path: Path) -> None:
    """Even if the session was written to just before."""
    clock = wenmai.MovableClock()
    async with wenmai.open(f"sqlite:///{tmp_path}/clock.db", clock=clock) as memory:
        session = await memory.session("talk")
        await append_turn(session, 1)
        short = timedelta(hours=1)
        await memory.sessions.change(
            Scope(), "talk", lambda record: msgspec.structs.replace(record, lifetime_seconds=3600)
        )
        clock.advance(timedelta(days=29))
        await append_turn(session, 2)
        clock.advance(timedelta(days=1) + short)
        with pytest.raises(SessionExpired):
            await session.append(pair(3))


async def test_a_cached_session_is_absent_for_another_user(memory: wenmai.Memory) -> None:
    """Even just after its owner wrote to it."""
    await append_turn(await memory.session("talk"), 1)
    with pytest.raises(SessionNotFound):
        await memory.transcript.append(Scope(user_id="stranger"), ThreadKey("talk", "assistant"), pair(2))


async def test_more_sessions_than_the_cache_holds_lose_nothing(tmp_path: Path) -> None:
    """The oldest entry is evicted and read again."""
    async with open_store(f"sqlite:///{tmp_path}/many.db", clock=wenmai.MovableClock()) as store:
        assert isinstance(store, SqliteStore)
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        sessions = [await memory.session(f"talk-{number}") for number in range(MAX_SESSIONS + 5)]
        for session in sessions:
            await session.append(pair(1))
        for session in (*sessions[:5], *sessions[-5:]):
            assert await append_turn(session, 2) == ["q1", "a1", "q2", "a2"]


async def cache_of(store: SqliteStore) -> write_cache.WriteCache:
    """The writer's cache, once all submitted jobs are done."""
    return await store._connections.write(store.logs._write_cache)


async def test_the_cache_is_bounded_by_the_bytes_of_whole_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tool calls and metadata count like content; all sessions together stay below one limit."""
    monkeypatch.setattr(write_cache, "MAX_BYTES", 1 << 20)
    async with open_store(f"sqlite:///{tmp_path}/large.db", clock=wenmai.MovableClock()) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=wenmai.MovableClock())
        large = {"result": "y" * MAX_TAIL_BYTES}
        for extra in ({"tool_calls": [{"id": "1", **large}]}, {"metadata": large}, {"content": large["result"]}):
            session = await memory.session()
            await session.append([{"role": "assistant", "content": "", **extra}] * 20)
            assert (await cache_of(store)).size < MAX_TAIL_BYTES
        for number in range(60):
            session = await memory.session(f"talk-{number}")
            await session.append([{"role": "assistant", "content": "", "metadata": {"result": "y" * 1_000}}] * 10)
        found = await cache_of(store)
        assert 500_000 < found.size <= 1 << 20
        assert found.size == sum(each.counted_size for each in found._sessions.values())
        assert await append_turn(await memory.session("talk-0"), "end", WindowLimits(messages=2)) == ["qend", "aend"]


async def test_the_cached_threads_of_a_session_are_bounded(tmp_path: Path) -> None:
    """Including those of refused appends; evicted ones are read again when they are written to."""
    clock = wenmai.MovableClock()
    async with open_store(f"sqlite:///{tmp_path}/personas.db", clock=clock) as store:
        memory = wenmai.Memory(store.documents, store.logs, clock=clock)
        session = await memory.session("talk")
        for number in range(MAX_THREADS + 5):
            assert await append_turn(session.with_persona(f"n{number}"), 1) == ["q1", "a1"]
        found = await cache_of(store)
        assert len(found._sessions[Scope(), "talk"].threads) == MAX_THREADS
        for number in range(MAX_THREADS + 5):
            assert await append_turn(session.with_persona(f"n{number}"), 2) == ["q1", "a1", "q2", "a2"]
        clock.advance(memory.policy.session_lifetime * 2)
        for number in range(MAX_THREADS + 5):
            with pytest.raises(SessionExpired):
                await session.with_persona(f"n{number}").append(pair(3))
        assert len(found._sessions[Scope(), "talk"].threads) <= MAX_THREADS


async def test_long_texts_are_not_cached(memory: wenmai.Memory) -> None:
    """Windows over long messages are still correct."""
    session = await memory.session("talk")
    for number in range(12):
        await append_turn(session, f"{number}" + "长" * (MAX_TAIL_BYTES // 10))
    await append_turn(session, "short")
    await append_turn(session, "x" * (2 * MAX_TAIL_BYTES))
    await append_turn(session, "end")
