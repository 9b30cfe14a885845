"""A question that a sentence may answer goes to the model; if the model finds nothing in the evidence, it is open."""

from collections.abc import AsyncIterator

import pytest

from scripted_model import ScriptedModel, scripted_model
from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnRequest
from wenmai.engine import Engine
from wenmai.grounding.types import PolicyMode
from wenmai.scope import Scope

UNDECIDED = "门楼的柱子上刻着什么字？"
OPEN = "村口的古井是谁挖的？"


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    """A model that says what a test tells it to say."""
    async with scripted_model() as running:
        yield running


async def asked(engine: Engine, question: str) -> TurnAnswer:
    """The village elder's answer."""
    return await engine.chat.ask(TurnRequest(scope=Scope(), persona_id="village_elder", query=question))


async def test_a_model_answers_from_the_passages_where_the_rules_are_not_sure(model: ScriptedModel) -> None:
    """What verification keeps is a normal answer with its citation; without a model the question stays open."""
    model.answer = "对联刻在门楼两侧的青石柱上[1]。"
    async with engine_at("memory://", **model.settings) as engine:
        answer = await asked(engine, UNDECIDED)
        trace = (await engine.traces.get(Scope(), answer.trace_id)).record
    assert (answer.policy_mode, answer.answer_text) == (PolicyMode.NORMAL, model.answer)
    assert [citation.evidence_id for citation in answer.citations] == ["hall-06"]
    assert {step.name: step.status for step in trace.tool_calls}["gate"] == "ok"
    async with engine_at("memory://") as engine:
        assert (await asked(engine, UNDECIDED)).policy_mode is PolicyMode.CONSERVATIVE


@pytest.mark.parametrize("said", ["这件事不清楚。", "好的。"])
async def test_a_model_that_finds_no_answer_leaves_the_question_open(model: ScriptedModel, said: str) -> None:
    """What it says is conservative and cites nothing."""
    model.answer = said
    async with engine_at("memory://", **model.settings) as engine:
        answer = await asked(engine, UNDECIDED)
    assert answer.policy_mode is PolicyMode.CONSERVATIVE
    assert answer.citations == []


async def test_no_model_is_called_where_no_sentence_may_answer(model: ScriptedModel) -> None:
    """It is a question that no passage can answer."""
    async with engine_at("memory://", **model.settings) as engine:
        answer = await asked(engine, OPEN)
    assert answer.policy_mode is PolicyMode.CONSERVATIVE
    assert model.asked == []
