"""Idempotency keys after a long time: a stored answer must not be returned for another question."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.clock import MovableClock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope

USER = Scope("default", "default", "visitor")
FIRST, SECOND = "请问严氏家训有哪些？", "祠堂是谁建的？"

Ask = Callable[[str], Awaitable[TurnAnswer]]


@asynccontextmanager
async def engine_with(clock: MovableClock, **flags: Any) -> AsyncIterator[tuple[Engine, Ask]]:
    """An engine over an empty store, and a function that asks in one session, always with the same key."""
    settings = load_engine_settings(flags={"embedder": "none", "store": "memory://", **flags}, environment={})
    async with open_engine(settings.values, clock=clock) as engine:

        async def ask(query: str) -> TurnAnswer:
            request = TurnRequest(
                scope=USER, persona_id="ancestor_yan", query=query, session_id="session-1", idempotency_key="1"
            )
            return await asyncio.wait_for(engine.chat.ask(request), timeout=20)

        yield engine, ask


async def questions(engine: Engine, session_id: str) -> list[str]:
    """The questions in the session."""
    session = await engine.memory.find(session_id, scope=USER, persona_id="ancestor_yan")
    assert session is not None
    return [message.content for message in await session.messages() if message.role == "user"]


@pytest.mark.parametrize("days", [1, 5], ids=["its-trace-is-kept", "its-trace-is-gone"])
async def test_a_key_used_again_after_its_retention_asks_again(days: int) -> None:
    """Another question gets its own answer and is in the transcript; so is the same one."""
    clock = MovableClock()
    async with engine_with(clock, session_lifetime_seconds=30 * 86400, trace_retention_days=3) as (engine, ask):
        first = await ask(FIRST)
        clock.advance(timedelta(days=days, hours=1))
        await engine.store.documents.sweep()  # type: ignore[union-attr]
        second = await ask(SECOND)
        assert (await engine.traces.get(USER, second.trace_id)).record.request_input.query == SECOND
        clock.advance(timedelta(days=days, hours=1))
        third = await ask(FIRST)
        assert [first.turn_id, second.turn_id, third.turn_id] == [1, 2, 3]
        assert await questions(engine, "session-1") == [FIRST, SECOND, FIRST]
        assert second.answer_text != first.answer_text


async def test_a_keyed_turn_ends_though_each_session_of_its_attempts_has_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first attempt created another session and failed there; at the next attempt that one has expired too."""
    clock = MovableClock()
    async with engine_with(clock, session_lifetime_seconds=1000) as (engine, ask):
        await engine.memory.session("session-1", scope=USER)

        async def broken(*_: object, **__: object) -> None:
            raise StoreUnavailable("documents", "gone")

        with monkeypatch.context() as breaking:
            breaking.setattr(engine.prompts, "active", broken)
            for _ in range(2):
                clock.advance(timedelta(seconds=1001))
                with pytest.raises(StoreUnavailable):
                    await ask(FIRST)
        clock.advance(timedelta(seconds=1001))
        answer = await ask(FIRST)
        assert await questions(engine, answer.session_id) == [FIRST]
        assert (await ask(FIRST)).turn_id == answer.turn_id == 1
