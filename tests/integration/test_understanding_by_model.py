"""A model may say what a message means; the rules check it, and stand in where it fails. The trade is a clinic."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from test_business_turn import ask, opened, trace

from clinic import write_clinic
from scripted_model import ScriptedModel, scripted_model
from wenmai.scope import Scope
from wenmai.stores.records import StateTrace

QUESTION = "做那个要躺进去的检查，得提前多久？"
"""It has no word of the rules."""


@pytest.fixture
async def script() -> AsyncIterator[ScriptedModel]:
    """A scripted model."""
    async with scripted_model() as running:
        yield running


async def test_the_model_understands_what_the_words_do_not_say(script: ScriptedModel, tmp_path: Path) -> None:
    """It is shown the rules and the conversation; the trace says that it understood the message."""
    script.understood = json.dumps({"intent": "procedure", "objects": [{"name": "核磁共振", "stage": "预约"}]})
    async with opened(write_clinic(tmp_path), understanding="model", **script.settings) as engine:
        answer = await ask(engine, QUESTION)
        business = (await trace(engine, answer)).details.business
        assert isinstance(business, StateTrace)
        assert business.operation is not None
        assert (business.operation.business_object, business.operation.operation_stage) == ("核磁共振", "预约")
        assert business.by_model
        assert business.filters == {"domains": ["guide"], "tags": ["核磁共振"]}
        assert answer.degraded == []
        await ask(engine, "多少钱？")
    assert ["磁共振" in shown and QUESTION in shown for shown in script.asked_to_understand] == [True, True]


BAD = {
    "an unknown object": '{"objects": [{"name": "CT"}]}',
    "a stage of no object": '{"objects": [{"name": "超声", "stage": "手术"}]}',
    "an unknown intent": '{"intent": "refund"}',
    "a customer whom nobody named": '{"customer": "12345"}',
    "another form": '{"intent": ["procedure"]}',
    "cut off": '{"intent": "procedure", "obj',
    "prose": "The user wants to book an examination.",
}


@pytest.mark.parametrize("understood", BAD.values(), ids=BAD.keys())
async def test_a_reply_that_the_rules_do_not_allow_changes_nothing(
    script: ScriptedModel, tmp_path: Path, understood: str
) -> None:
    """The words of the message decide, and the answer says so."""
    script.understood = understood
    async with opened(write_clinic(tmp_path), understanding="model", **script.settings) as engine:
        answer = await ask(engine, "核磁怎么预约？")
        state = await engine.memory.states.get(Scope(), "s1")
        assert state.current is not None
        assert (state.current.business_object, state.current.operation_stage) == ("核磁共振", "预约")
        assert state.current_customer_id is None
        assert answer.degraded == ["understanding"]


async def test_a_model_that_never_answers_costs_its_time_limit(script: ScriptedModel, tmp_path: Path) -> None:
    """Then the words decide."""
    script.understood = None
    settings = {"understanding": "model", "understanding_seconds": 0.1, **script.settings}
    async with opened(write_clinic(tmp_path), **settings) as engine:
        answer = await ask(engine, "核磁怎么预约？")
        state = await engine.memory.states.get(Scope(), "s1")
        assert state.current is not None
        assert state.current.business_object == "核磁共振"
        assert answer.degraded == ["understanding"]
