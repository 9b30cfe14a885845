"""What SQLite's writer remembers never differs from what the file says, whoever has changed it."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import wenmai
from wenmai import NewMessage, SessionMemory, WindowLimits
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.sqlite import SqliteStore, open_store
from wenmai.stores.sqlite.recent import SESSIONS, TAIL, TAIL_CHARACTERS

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
        await store.logs.settle(Scope(), ThreadKey("talk", "assistant"), stored[1].seq, content="a2")
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
    session, other = await memory.session("talk"), ThreadKey("other", "assistant")
    await memory.session(other.session_id)
    broken = [NewMessage(role="user", content="\ud800")]  # no UTF-8 can hold it
    for number in range(20):
        done = await asyncio.gather(
            grown(session, number), memory.transcript._logs.append(Scope(), other, broken), return_exceptions=True
        )
        assert isinstance(done[1], UnicodeEncodeError)
    assert [message.seq for message in await session.messages(100)] == list(range(1, 41))


async def test_a_session_whose_end_was_moved_is_expired_at_once(memory: wenmai.Memory) -> None:
    """A change of the session's record counts for the next append, however lately the session was written to."""
    session = await memory.session("talk")
    await grown(session, 1)
    past = datetime(2020, 1, 1, tzinfo=UTC)
    await memory.sessions.change(Scope(), "talk", lambda record: msgspec.structs.replace(record, expires_at=past))
    with pytest.raises(SessionExpired):
        await session.append(pair(2))


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


async def test_long_texts_are_not_kept_in_memory(memory: wenmai.Memory) -> None:
    """Windows over long messages are right all the same, and what is remembered of them is bounded."""
    session = await memory.session("talk")
    for number in range(12):
        await grown(session, f"{number}" + "长" * (TAIL_CHARACTERS // 5))
    await grown(session, "short")
    await grown(session, "x" * (2 * TAIL_CHARACTERS))
    await grown(session, "end")
