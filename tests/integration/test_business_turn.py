"""A turn uses the business state: an elliptic question is searched with what it inherits. The trade is a clinic."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from redis_server import RedisServer
from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.records import StateTrace, TraceRecord

PERSONA = """
    summary: {en: Answers from the handbook.}
    system: {en: Answer from the evidence.}
    greetings: {zh: [您好。]}
    openings: {zh: [""]}
    closings: {zh: [""]}
    conservative: {zh: ["关于{topic}，没有写明。"]}
    refusals: {zh: [这件事不便谈。]}
    out_of_scope: {zh: [这里不谈。]}
    clarifications: {zh: [您指什么？]}
    acknowledgements: {zh: [记下了。]}
"""
PROFILE = f"""
name: clinic
settings: {{sample_sites: [default/default], language: zh}}
personas:
  - npc_id: nurse
    name: {{zh: 护士}}{PERSONA}
  - npc_id: desk
    name: {{zh: 前台}}{PERSONA}
evidence: [clinic.jsonl]
business: clinic.rules.yaml
"""
RULES = """
intents:
  procedure: {words: [怎么, 如何, 流程], domains: [guide]}
  fee: {words: [多少钱, 费用], domains: [fees]}
domains: {guide: [], fees: []}
objects:
  核磁共振: {words: [核磁, 磁共振]}
  超声: {words: [B超, 彩超]}
stages: {预约: [], 检查: [], 取报告: [拿报告]}
customers: ['病历号\\s*(\\d{5})']
filters: [domain, object]
"""
PASSAGES = [
    ("guide", "核磁共振", "核磁共振须提前3天在二楼窗口预约。"),
    ("guide", "核磁共振", "核磁共振取报告在检查后第2天，到五楼东侧领取。"),
    ("guide", "超声", "超声预约当天即可，在一楼大厅办理。"),
    ("guide", "超声", "超声取报告在检查后30分钟，到一楼西侧领取。"),
    ("fees", "核磁共振", "核磁共振每个部位收费620元。"),
    ("fees", "超声", "超声每个部位收费110元。"),
]


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """The clinic's profile, with rules and passages."""
    lines = [
        f'{{"evidence_id": "c{number}", "title": "{thing}手册", "text": "{text}", "domains": ["{domain}"],'
        f' "tags": ["{thing}"], "source_ref": "手册", "language": "zh"}}'
        for number, (domain, thing, text) in enumerate(PASSAGES)
    ]
    (tmp_path / "clinic.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "clinic.rules.yaml").write_text(RULES, encoding="utf-8")
    (tmp_path / "clinic.yaml").write_text(PROFILE, encoding="utf-8")
    return tmp_path / "clinic.yaml"


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
async def clinic(profile: Path, store: str = "memory://", **flags: Any) -> AsyncIterator[Engine]:
    """The clinic's engine."""
    async with engine_at(store, profile=str(profile), **flags) as engine:
        yield engine


async def test_an_elliptic_question_is_searched_with_the_inherited_object(profile: Path) -> None:
    """Another persona, whose thread is empty, finds the object's passage; the trace shows state and filters."""
    async with clinic(profile) as engine:
        await ask(engine, "核磁怎么预约？")
        answer = await ask(engine, "那取报告呢？", "desk")
        assert "五楼东侧" in answer.answer_text
        seen = await trace(engine, answer)
        assert seen.request_input.rewritten_query == "核磁共振 那取报告呢？"
        business = seen.details.business
        assert isinstance(business, StateTrace)
        assert business.operation is not None
        assert business.operation.operation_stage == "取报告"
        assert business.filters == {"domains": ["guide"], "tags": ["核磁共振"]}
        assert [step.status for step in seen.tool_calls if step.name == "state"] == ["ok"]


async def test_without_the_rules_it_would_not_be(profile_without_rules: Path) -> None:
    """The same dialogue in the same profile without rules does not know which report is meant."""
    async with clinic(profile_without_rules) as engine:
        await ask(engine, "核磁怎么预约？")
        answer = await ask(engine, "那取报告呢？", "desk")
        assert "五楼东侧" not in answer.answer_text
        assert [step.status for step in (await trace(engine, answer)).tool_calls if step.name == "state"] == ["skipped"]


async def test_an_intent_chooses_the_domain(profile: Path) -> None:
    """The question for a fee finds the fee, although nothing in it names a domain; incognito turns change nothing."""
    async with clinic(profile) as engine:
        await ask(engine, "核磁共振怎么预约？")
        answer = await ask(engine, "超声多少钱？")
        assert [citation.evidence_id for citation in answer.citations] == ["c5"]
        before = await engine.memory.states.get(Scope(), "s1")
        assert [change.rule for change in before.changes] == ["first", "intent"]
        await ask(engine, "核磁怎么检查？", incognito=True)
        assert await engine.memory.states.get(Scope(), "s1") == before


@pytest.mark.xdist_group("redis")
@pytest.mark.parametrize("fault", ["none", "killed"])
async def test_the_state_survives_the_cache(
    profile: Path, tmp_path: Path, redis_server: RedisServer, fault: str
) -> None:
    """With Redis in front, and with Redis killed between the turns, the second question inherits the same."""
    store = f"sqlite:///{tmp_path}/wenmai.db"
    async with clinic(profile, store, hot=f"{redis_server.url}?prefix=clinic-{fault}") as engine:
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
        async with clinic(profile):
            pass
