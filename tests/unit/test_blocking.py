"""The blocking API behaves like the asynchronous memory."""

import inspect
import re
import threading
from pathlib import Path

import pytest

import wenmai
from wenmai import MovableClock, Scope, WindowLimits, blocking
from wenmai.blocking import BlockingMemory, BlockingSession
from wenmai.errors import InvalidInput, SessionNotFound, StoreUnavailable, UnsupportedUrl
from wenmai.memory.library import Memory
from wenmai.memory.preferences import PreferenceChange
from wenmai.memory.session_memory import SessionMemory

TURNS = [
    {"role": "user", "content": "第一条是什么？", "id": "q1"},
    {"role": "assistant", "content": "孝。", "id": "a1"},
    {"role": "user", "content": "第二条呢？", "id": "q2"},
]


async def test_results_equal_those_of_the_asynchronous_memory() -> None:
    """The same calls on the same clock give the same records, windows, contexts and preferences."""
    clock, limits = MovableClock(), WindowLimits(messages=1)
    async with wenmai.open("memory://", clock=clock) as memory:
        session = await memory.session("s1", title="家训", metadata={"a": 1})
        expected = [
            await memory.find("nowhere"),
            await session.append(TURNS[:2]),
            await session.append_and_window(TURNS[2:], limits),
            await session.window(),
            await session.messages(1, before=3),
            [each async for each in session.history()],
            (await session.page(2)).messages,
            (await session.overview(1)).message_count,
            await session.prefer(tone="casual"),
            await session.preferences(),
            await session.context("还有吗？", budget_tokens=200),
            await session.record(),
            await session.with_persona("elder").messages(),
            [each.content for each in await (await memory.find("s1") or session).messages()],
            await session.truncate(1),
            await session.clear(),
            await memory.sessions.list(Scope()),
            await session.delete(),
            await memory.sessions.delete(Scope(), "s1"),
        ]
    with blocking.open("memory://", clock=clock) as shell:
        same = shell.session("s1", title="家训", metadata={"a": 1})
        found = [
            shell.find("nowhere"),
            same.append(TURNS[:2]),
            same.append_and_window(TURNS[2:], limits),
            same.window(),
            same.messages(1, before=3),
            list(same.history()),
            same.page(2).messages,
            same.overview(1).message_count,
            same.prefer(tone="casual"),
            same.preferences(),
            same.context("还有吗？", budget_tokens=200),
            same.record(),
            same.with_persona("elder").messages(),
            [each.content for each in (shell.find("s1") or same).messages()],
            same.truncate(1),
            same.clear(),
            shell.sessions(),
            same.delete(),
            shell.delete("s1"),
        ]
        assert (same.session_id, same.created) == ("s1", True)
    assert [_plain(each) for each in found] == [_plain(each) for each in expected]


def _plain(value: object) -> str:
    """The value without the random incarnation that each store gave its session."""
    return re.sub(r"\b[0-9a-f]{16}\b", "identity", repr(value))


def test_the_blocking_api_has_every_method_of_the_memory() -> None:
    """A new method of the memory fails this test until the blocking API has it too."""
    parts = {name for name in vars(SessionMemory) if not name.startswith("_")}
    assert parts <= vars(BlockingSession).keys()
    assert {name for name in vars(Memory) if not name.startswith("_")} <= vars(BlockingMemory).keys()


def test_errors_are_those_of_the_memory(tmp_path: Path) -> None:
    """Errors of the memory propagate, and the API still works; its thread ends when it is closed."""
    with pytest.raises(UnsupportedUrl), blocking.open("ftp://nowhere"):
        pass
    with blocking.open(f"sqlite:///{tmp_path}/store.db") as memory:
        with pytest.raises(InvalidInput, match="role"):
            memory.session("s1").append([{"role": "wizard", "content": "x"}])
        session = memory.session("s1")
        session.delete()
        with pytest.raises(SessionNotFound):
            session.append(TURNS)
    assert "wenmai-blocking" not in {thread.name for thread in threading.enumerate()}


def fail_after_append(url: str) -> None:
    """A script that appends and then fails."""
    with blocking.open(url) as memory:
        memory.session("s1").append(TURNS)
        raise ZeroDivisionError


def test_store_keeps_what_a_script_wrote(tmp_path: Path) -> None:
    """Appended messages are kept when the API is closed, even by an error in the script."""
    url = f"sqlite:///{tmp_path}/store.db"
    with pytest.raises(ZeroDivisionError):
        fail_after_append(url)
    with blocking.open(url) as memory:
        session = memory.session("s1")
        session.rename("家训")
        memory.session("s2")
        page = memory.sessions(limit=1)
        more = memory.sessions(cursor=page.next_cursor)
        assert [stored.record.session_id for stored in [*page.items, *more.items]] == ["s2", "s1"]
        assert len(memory.sessions().items) == 2
        assert session.record().title == "家训"
        assert [message.id for message in session.messages()] == ["q1", "a1", "q2"]


def test_every_field_of_a_preference_change_is_a_keyword() -> None:
    """As of the asynchronous memory, which takes the fields themselves."""
    keywords = inspect.signature(BlockingSession.prefer).parameters.keys() - {"self"}
    assert keywords == set(PreferenceChange.__struct_fields__)
    with blocking.open("memory://") as memory:
        session = memory.session()
        session.prefer(tone="casual")
        assert session.prefer(clear=["tone"]).values.chosen == []


def test_what_is_used_after_the_memory_was_closed_says_so() -> None:
    """And leaves no work behind that was never begun."""
    with blocking.open("memory://") as memory:
        session = memory.session()
    for late in (memory.session, session.window):
        with pytest.raises(StoreUnavailable, match="the memory is closed"):
            late()
