"""A model as a second verifier: it may reject what the rules kept, and whatever else it does changes nothing."""

import json
import time
from collections.abc import AsyncIterator, Sequence

import pytest
from test_streamed_answer import ZH, ask

from scripted_model import ScriptedModel, scripted_model
from support import engine_at
from wenmai.scope import Scope
from wenmai.stores.records import TraceRecord

TRUE = "祠堂由严守正主持修建，三年建成。"
SUBTLE = "三年建成的祠堂，面对砚溪的是笔架山。"
"""A lie whose words all stand in the passage."""

FALSE = "祠堂的梁柱雕满了龙凤花纹。"
USER = Scope("default", "default", "visitor")


def verdicts(*supported: bool) -> str:
    """The verifier's answer."""
    return json.dumps({"verdicts": [{"id": index, "supported": each} for index, each in enumerate(supported, 1)]})


@pytest.fixture
async def script() -> AsyncIterator[ScriptedModel]:
    """A scripted model."""
    async with scripted_model() as running:
        yield running


async def turn(script: ScriptedModel, **settings: object) -> tuple[str, list[str], TraceRecord, Sequence[str]]:
    """One streamed turn with the verifier: text, what was degraded, trace, events."""
    async with engine_at("memory://", **script.settings, verifier="model", **settings) as engine:
        reader, answer = await ask(engine, ZH)
        trace = (await engine.traces.get(USER, answer.trace_id)).record
    assert reader.text == answer.answer_text
    return answer.answer_text, answer.degraded, trace, reader.kinds


async def test_a_lie_that_the_rules_pass_is_stopped(script: ScriptedModel) -> None:
    """It is removed with the reason, and the supported statement stays."""
    script.answer, script.verdicts = TRUE + SUBTLE, verdicts(True, False)
    text, degraded, trace, kinds = await turn(script)
    assert text.startswith(TRUE)
    assert SUBTLE not in text
    assert (trace.details.removed[-1].text, trace.details.removed[-1].reason) == (SUBTLE, "verifier")
    assert degraded == []
    assert "replace" not in kinds


async def test_the_verifier_sees_the_statements_with_their_passages_alone(script: ScriptedModel) -> None:
    """In one call; neither the question nor a passage that the statement does not cite."""
    script.answer, script.verdicts = "祠堂由严守正主持修建[1]。三年建成[1]。", verdicts(True, True)
    text, _, trace, _ = await turn(script)
    (shown,) = script.asked_to_verify
    assert text == script.answer
    assert ZH not in shown
    assert shown.count('"number"') == 1
    assert trace.prompt_tokens == 200


@pytest.mark.parametrize(
    "output",
    [
        "All are supported.",
        "{",
        '{"verdicts": [{"id": 1, "supported": true}]}',
        '{"verdicts": [{"id": 1, "supported": true}, {"id": 9, "supported": true}]}',
        '{"verdicts": [{"id": 1, "supported": true}, {"id": 2, "supported": "yes"}]}',
        '{"verdicts": {}}',
        "",
    ],
)
async def test_nonsense_leaves_the_rules(script: ScriptedModel, output: str) -> None:
    """What they kept stays, what they removed stays away, and the turn is degraded."""
    script.answer, script.verdicts = TRUE + FALSE + SUBTLE, output
    text, degraded, trace, _ = await turn(script)
    assert text.startswith(TRUE)
    assert SUBTLE in text
    assert FALSE not in text
    assert degraded == ["verifier"]
    assert [each.reason for each in trace.details.removed] == ["coverage"]


async def test_a_lying_verifier_loosens_nothing(script: ScriptedModel) -> None:
    """It is not even asked about what the rules removed."""
    script.answer, script.verdicts = TRUE + FALSE, verdicts(True)
    text, degraded, _, _ = await turn(script)
    assert FALSE not in text
    assert degraded == []
    assert FALSE not in script.asked_to_verify[0]


async def test_a_verifier_that_hangs_costs_its_time_limit(script: ScriptedModel) -> None:
    """Then the rules stand."""
    script.answer, script.verdicts = TRUE + FALSE, None
    began = time.monotonic()
    text, degraded, _, _ = await turn(script, verifier_seconds=0.5)
    assert time.monotonic() - began < 10
    assert text.startswith(TRUE)
    assert FALSE not in text
    assert degraded == ["verifier"]


async def test_the_verifier_may_be_another_model(script: ScriptedModel) -> None:
    """Of the same provider, on the same server."""
    script.answer, script.verdicts = TRUE, verdicts(True)
    text, degraded, trace, _ = await turn(script, verifier_model="openai:judge")
    assert (text, degraded, trace.model) == (TRUE, [], "openai:scripted")
    assert len(script.asked_to_verify) == 1
