"""A turn uses the business state: an elliptic question is searched with what it inherits. The trade is a clinic."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import wenmai
from clinic import PROFILE, RULES, write_clinic
from redis_server import RedisServer
from support import engine_at, settings_of
from wenmai import MemoryPolicy
from wenmai.business.rules import BusinessRules
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.records import StateTrace, TraceRecord
from wenmai.stores.redis.link import Link


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The clinic's profile."""
    return write_clinic(tmp_path)


@pytest.fixture
def profile_without_rules(profile: Path) -> Path:
    """The clinic's profile without its rules."""
    profile.write_text(PROFILE.replace("business: clinic.rules.yaml", ""), encoding="utf-8")
    return profile


async def ask(engine: Engine, query: str, persona: str = "nurse", **more: Any) -> TurnAnswer:
    """The answer in session s1."""
    request = TurnRequest(scope=Scope(), persona_id=persona, query=query, **({"session_id": "s1"} | more))
    return await engine.chat.ask(request)


async def trace(engine: Engine, answer: TurnAnswer) -> TraceRecord:
    """The turn's trace."""
    return (await engine.traces.get(Scope(), answer.trace_id)).record


@asynccontextmanager
async def opened(profile: Path, store: str = "memory://", **flags: Any) -> AsyncIterator[Engine]:
    """The clinic's engine."""
    async with engine_at(store, profile=str(profile), **flags) as engine:
        yield engine


async def test_an_elliptic_question_is_searched_with_the_inherited_object(profile: Path) -> None:
    """Another persona, whose thread is empty, finds the object's passage; the trace shows state and filters."""
    async with opened(profile) as engine:
        await ask(engine, "核磁怎么预约？")
        answer = await ask(engine, "那取报告呢？", "desk")
        assert "五楼东侧" in answer.answer_text
        seen = await trace(engine, answer)
        assert seen.request_input.rewritten_query == "核磁共振 取报告"
        business = seen.details.business
        assert isinstance(business, StateTrace)
        assert business.operation is not None
        assert business.operation.operation_stage == "取报告"
        assert business.filters == {"domains": ["guide"], "tags": ["核磁共振"]}
        assert [step.status for step in seen.tool_calls if step.name == "state"] == ["ok"]
        assert ["核磁共振，取报告" in block.text for block in seen.blocks if block.kind == "state"] == [True]


async def test_without_the_rules_it_would_not_be(profile_without_rules: Path) -> None:
    """The same dialogue in the same profile without rules does not know which report is meant."""
    async with opened(profile_without_rules) as engine:
        await ask(engine, "核磁怎么预约？")
        answer = await ask(engine, "那取报告呢？", "desk")
        assert "五楼东侧" not in answer.answer_text
        assert [step.status for step in (await trace(engine, answer)).tool_calls if step.name == "state"] == ["skipped"]


async def test_an_intent_chooses_the_domain(profile: Path) -> None:
    """The question for a fee finds the fee, although nothing in it names a domain; incognito turns change nothing."""
    async with opened(profile) as engine:
        await ask(engine, "核磁共振怎么预约？")
        answer = await ask(engine, "超声多少钱？")
        assert [citation.evidence_id for citation in answer.citations] == ["c5"]
        before = await engine.memory.states.get(Scope(), "s1")
        assert [change.rule for change in before.changes] == ["first", "intent"]
        await ask(engine, "核磁怎么检查？", incognito=True)
        assert await engine.memory.states.get(Scope(), "s1") == before


@pytest.fixture(params=["sqlite", pytest.param("cached", marks=pytest.mark.xdist_group("redis"))])
def store(request: pytest.FixtureRequest) -> dict[str, str]:
    """SQLite, and PostgreSQL behind Redis."""
    return settings_of(request.param, request)


async def test_of_two_questions_at_once_no_change_is_lost(profile: Path, store: dict[str, str]) -> None:
    """Two tabs ask the same persona and a third another one, in two processes: all are right, in one chain."""
    async with opened(profile, **store) as engine, opened(profile, **store) as other:
        await ask(engine, "您好")
        asked = {
            "核磁怎么预约？": ask(engine, "核磁怎么预约？"),
            "超声多少钱？": ask(other, "超声多少钱？"),
            "超声怎么取报告？": ask(other, "超声怎么取报告？", "desk"),
        }
        answers = dict(zip(asked, await asyncio.gather(*asked.values()), strict=True))
        assert "二楼窗口" in answers["核磁怎么预约？"].answer_text
        assert "110元" in answers["超声多少钱？"].answer_text
        assert "一楼西侧" in answers["超声怎么取报告？"].answer_text
        assert sorted(answers[query].turn_id for query in ("核磁怎么预约？", "超声多少钱？")) == [2, 3]
        state = await engine.memory.states.get(Scope(), "s1")
        assert [change.version for change in state.changes] == [1, 2, 3]
        assert {change.turn for change in state.changes} == {"nurse#2", "nurse#3", "desk#1"}
        turns = {change.turn: change.operation.last_action for change in state.changes if change.operation}
        assert {turns["nurse#2"], turns["nurse#3"], turns["desk#1"]} == {*asked}


@pytest.mark.xdist_group("redis")
async def test_an_update_takes_one_round_trip_to_redis(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the first of a process one more, to read the state; a read takes one."""
    calls = 0
    exchange = Link._with_connection

    async def counted(link: Link, *arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        return await exchange(link, *arguments)

    policy = MemoryPolicy(business=msgspec.convert(yaml.safe_load(RULES), BusinessRules))
    hot = f"{redis_server.url}?prefix=clinic-trips"
    async with wenmai.open(f"sqlite:///{tmp_path}/wenmai.db", hot=hot, policy=policy) as memory:
        session = await memory.session("s1")
        monkeypatch.setattr(Link, "_with_connection", counted)
        taken = []
        for call in (
            partial(session.understand, "核磁怎么预约？"),
            partial(session.understand, "那取报告呢？"),
            session.state,
        ):
            calls = 0
            await call()
            taken.append(calls)
    assert taken[0] <= 2
    assert taken[1:] == [1, 1]


@pytest.mark.xdist_group("redis")
@pytest.mark.parametrize("fault", ["none", "off", "killed"])
async def test_the_state_survives_the_cache(
    profile: Path, tmp_path: Path, redis_server: RedisServer, fault: str
) -> None:
    """With Redis, without it, and with Redis killed between the turns, the second question inherits the same."""
    store = f"sqlite:///{tmp_path}/wenmai.db"
    hot = "" if fault == "off" else f"{redis_server.url}?prefix=clinic-{fault}"
    async with opened(profile, store, hot=hot) as engine:
        await ask(engine, "核磁怎么预约？")
        if fault == "killed":
            redis_server.kill()
        answer = await ask(engine, "那取报告呢？", "desk")
    if fault == "killed":
        redis_server.start()
    assert "五楼东侧" in answer.answer_text


async def test_a_profile_with_wrong_rules_does_not_start(profile: Path) -> None:
    """The error names the field."""
    rules = profile.with_name("clinic.rules.yaml")
    rules.write_text(RULES.replace("domains: [fees]", "domains: [prices]"), encoding="utf-8")
    with pytest.raises(InvalidInput, match=r"`intents.fee.domains` names `prices`"):
        async with opened(profile):
            pass
