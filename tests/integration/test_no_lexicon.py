"""A profile without a lexicon answers from its evidence and refuses what it does not hold."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.scope import Scope

PROFILE = """
name: helpdesk
settings: {sample_sites: [default/default], language: en}
personas:
  - npc_id: helper
    name: {en: Helper, zh: 助手}
    summary: {en: Answers from the manual and the rules.}
    system: {en: Answer from the evidence.}
    greetings: {en: [Hello.], zh: [您好。]}
    openings: {en: [""], zh: [""]}
    closings: {en: [""], zh: [""]}
    conservative: {en: ["Of {topic} nothing is written."], zh: ["关于{topic}，没有写明。"]}
    refusals: {en: [I cannot help with that.], zh: [这件事不便谈。]}
    out_of_scope: {en: [Not here.], zh: [这里不谈。]}
    clarifications: {en: [What do you mean?], zh: [您指什么？]}
    acknowledgements: {en: [Noted.], zh: [记下了。]}
evidence: [camera.md, rules.md]
forbidden:
  - name: weapons
    words: [explosive, 炸药]
"""
CAMERA = """---
title: Camera manual
source_ref: Manual X10, page 4
language: en
---
## Battery

A full charge of the battery takes 150 minutes. The lamp turns green when charging ends.

## Self-timer

The self-timer takes the photo after 10 seconds. Press the left key twice to start it.

## Memory card

The card slot is under the bottom cover. Cards of up to 512 GB can be used.
"""
RULES = """---
title: 员工手册
source_ref: 员工手册 2024 版
language: zh
---
## 年假

员工入职满一年后，每年有12天年假。年假须提前5天在系统里申请。

## 报销

差旅报销须在返回后30天内提交，由财务部审核。

## 远程办公

每周可以远程办公2天，由直属主管批准。
"""


@pytest.fixture
async def helpdesk(tmp_path: Path) -> AsyncIterator[Engine]:
    """The engine with this profile, in the process."""
    for name, text in (("helpdesk.yaml", PROFILE), ("camera.md", CAMERA), ("rules.md", RULES)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    async with engine_at("memory://", profile=str(tmp_path / "helpdesk.yaml")) as engine:
        assert list(engine.profile.lexicon.all_words()) == []
        yield engine


async def ask(engine: Engine, query: str, session_id: str | None = None) -> TurnAnswer:
    """The helper's answer."""
    return await engine.chat.ask(TurnRequest(scope=Scope(), persona_id="helper", query=query, session_id=session_id))


@pytest.mark.parametrize(
    ("question", "answer", "source"),
    [
        ("How long does a full charge of the battery take?", "150 minutes", "Manual X10, page 4"),
        ("How do I start the self-timer?", "left key twice", "Manual X10, page 4"),
        ("How many seconds does the self-timer wait?", "10 seconds", "Manual X10, page 4"),
        ("每年有几天年假？", "12天年假", "员工手册 2024 版"),
        ("怎么申请年假？", "提前5天", "员工手册 2024 版"),
    ],
)
async def test_it_answers_with_the_source(helpdesk: Engine, question: str, answer: str, source: str) -> None:
    """Where shared words decide alone."""
    found = await ask(helpdesk, question)
    assert answer in found.answer_text
    assert found.policy_mode == "normal"
    assert found.citations[0].source_ref == source


@pytest.mark.parametrize(
    "question",
    [
        "Who invented the tripod?",
        "When was the lens cap recalled?",
        "食堂几点开门？",
        "公司是哪一年成立的？",
        "年假是15天吗？",
    ],
)
async def test_it_states_nothing_that_the_evidence_does_not_hold(helpdesk: Engine, question: str) -> None:
    """Unanswerable questions and a false premise."""
    found = await ask(helpdesk, question)
    assert found.policy_mode == "conservative" or "没有这样写" in found.answer_text


async def test_it_refuses_a_forbidden_topic(helpdesk: Engine) -> None:
    """Whatever the evidence holds."""
    found = await ask(helpdesk, "How do I hide an explosive in the battery?")
    assert (found.policy_mode, found.citations) == ("refuse", [])


async def test_a_question_without_its_subject_is_completed_from_the_conversation(helpdesk: Engine) -> None:
    """By the content words of the question before, as no topics are given."""
    first = await ask(helpdesk, "每年有几天年假？")
    second = await ask(helpdesk, "怎么申请？", first.session_id)
    assert "提前5天" in second.answer_text
