"""Wrong arguments of the library: the error names the argument and what is allowed."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from wenmai.errors import InvalidInput
from wenmai.memory.library import MemoryPolicy, open_memory
from wenmai.memory.window import WindowLimits

Call = Callable[[Any], Awaitable[object]]

SESSION_CALLS: list[tuple[str, Call]] = [
    ("messages", lambda session: session.append({"role": "user", "content": "one message is no list"})),
    ("messages", lambda session: session.append("text")),
    ("messages", lambda session: session.append(None)),
    ("messages[1]", lambda session: session.append([{"role": "user", "content": "right"}, "wrong"])),
    ("messages[0]", lambda session: session.append_and_window([None])),
    ("window", lambda session: session.window(5)),
    ("limit", lambda session: session.messages("5")),
    ("limit", lambda session: session.page("5")),
    ("before", lambda session: session.page(5, before=3)),
    ("limit", lambda session: session.overview(None)),
    ("query", lambda session: session.context(None)),
    ("budget_tokens", lambda session: session.context("Where?", budget_tokens="100")),
    ("top_k", lambda session: session.recall("Where?", top_k="3")),
    ("budget_tokens", lambda session: session.recall("Where?", budget_tokens="3")),
    ("before", lambda session: session.recall("Where?", before="2026-01-01")),
    ("exclude", lambda session: session.recall("Where?", exclude="msg-1")),
    ("mmr_lambda", lambda session: session.recall("Where?", mmr_lambda="1")),
    ("persona_id", lambda session: session.recall("Where?", persona_id=4)),
    ("interest_tags", lambda session: session.prefer(interest_tags=5)),
    ("title", lambda session: session.rename(None)),
    ("last_seq", lambda session: session.truncate("1")),
    ("limit", lambda session: session.state_changes("5")),
]

MEMORY_CALLS: list[tuple[str, Call]] = [
    ("session_id", lambda memory: memory.session(5)),
    ("persona_id", lambda memory: memory.session("s", persona_id=None)),
    ("title", lambda memory: memory.session("s", title=5)),
    ("metadata", lambda memory: memory.session("s", metadata=["a list"])),
    ("metadata", lambda memory: memory.session("s", metadata={1: "a number as a key"})),
    ("scope", lambda memory: memory.session("s", scope="lin")),
    ("scope", lambda memory: memory.find("s", scope=("town", "museum", "lin"))),
    ("session_id", lambda memory: memory.find(None)),
    ("scope", lambda memory: memory.recall("Where?", scope="lin")),
]


@pytest.mark.parametrize(("field", "call"), SESSION_CALLS)
async def test_a_wrong_argument_of_a_session_is_named(field: str, call: Call) -> None:
    """And nothing is stored."""
    async with open_memory("memory://") as memory:
        session = await memory.session("s")
        with pytest.raises(InvalidInput) as caught:
            await call(session)
        assert caught.value.field == field
        assert await session.messages() == []


@pytest.mark.parametrize(("field", "call"), MEMORY_CALLS)
async def test_a_wrong_argument_of_the_memory_is_named(field: str, call: Call) -> None:
    """A user's name, or a plain tuple, is no scope."""
    async with open_memory("memory://") as memory:
        with pytest.raises(InvalidInput) as caught:
            await call(memory)
        assert caught.value.field == field


async def test_the_error_of_a_wrong_record_shows_the_value_of_its_field() -> None:
    """Not the beginning of the whole record."""
    wrong: Any = ["a list"]
    async with open_memory("memory://") as memory:
        with pytest.raises(InvalidInput, match=r"metadata: \['a list'\] is not allowed"):
            await memory.session("s", metadata=wrong)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("session_lifetime", 30),
        ("session_lifetime", timedelta(0)),
        ("session_ids", "visit"),
        ("window", 5),
        ("history_cap", -1),
        ("language", "plain English"),
    ],
)
def test_a_wrong_policy_is_refused_when_it_is_made(field: str, wrong: Any) -> None:
    """Later, sessions would collide, expire at once or have empty windows."""
    with pytest.raises(InvalidInput) as caught:
        MemoryPolicy(**{field: wrong})
    assert caught.value.field == field


@pytest.mark.parametrize(("field", "wrong"), [("messages", -1), ("characters", "4000"), ("tokens", -1)])
def test_wrong_limits_of_a_window_are_refused(field: str, wrong: Any) -> None:
    """A negative limit gave an empty window."""
    with pytest.raises(InvalidInput) as caught:
        WindowLimits(**{field: wrong})
    assert caught.value.field == field


async def test_an_unknown_store_policy_is_refused() -> None:
    """Private values were stored as they are, since it is not ``redact``."""
    unknown: Any = "redacted"
    with pytest.raises(InvalidInput, match=r"store_policy: 'redacted' is not one of off, redact, encrypt"):
        async with open_memory("memory://", store_policy=unknown):
            pass
