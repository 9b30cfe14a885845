"""Whatever a model does, a client's joined stream equals the answer, and nothing unsupported is streamed."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from http_service import open_service
from hypothesis import given, settings
from hypothesis import strategies as st
from test_http_stream import events_in

from answer_texts import answers, cut, cuttings
from scripted_model import ScriptedModel, scripted_model
from support import engine_at
from wenmai.chat.turn import TurnAnswer, TurnEvent, TurnRequest
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.grounding.claims.extraction import find_claims
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.scope import Scope

CHAT = "/api/v1/npc/chat"
ZH, EN = "严氏祠堂是谁修建的？", "Who founded the ancestral hall of the Yan clan?"


class StreamClient:
    """A client that joins tokens and starts over at a ``replace``.

    Attributes:
        text: what it shows.
        tokens: all that it was shown as a token.
        kinds: of the events, in order.
    """

    def __init__(self) -> None:
        self.text = ""
        self.tokens: list[str] = []
        self.kinds: list[str] = []

    async def hear(self, event: TurnEvent) -> None:
        """Handle an event of the library."""
        self.take(event.kind, msgspec.to_builtins(event))

    def take(self, kind: str, data: dict[str, Any]) -> None:
        """Handle an event of the stream."""
        self.kinds.append(kind)
        if kind == "token":
            self.tokens.append(data["text"])
            self.text += data["text"]
        elif kind == "replace":
            self.text = data["text"]


async def ask(engine: Engine, query: str, **fields: Any) -> tuple[StreamClient, TurnAnswer]:
    """One streamed turn and its answer."""
    reader = StreamClient()
    request = TurnRequest(
        scope=Scope("default", "default", "visitor"), persona_id="ancestor_yan", query=query, **fields
    )
    return reader, await engine.chat.ask(request, on_event=reader.hear)


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop for Hypothesis examples."""
    with asyncio.Runner() as running:
        yield running


@pytest.fixture(scope="module")
def parts(runner: asyncio.Runner) -> Iterator[tuple[Engine, ScriptedModel]]:
    """An engine and its model."""

    async def opened() -> AsyncIterator[tuple[Engine, ScriptedModel]]:
        never = BreakerPolicy(consecutive_failures=1000, minimum_calls=1000)  # many examples in a row are cut off
        async with scripted_model() as script:
            flags = {"store": "memory://", "embedder": "none", **script.settings}
            async with open_engine(
                load_engine_settings(flags=flags, environment={}).values, breaker_policy=never
            ) as engine:
                yield engine, script

    opening = opened()
    yield runner.run(anext(opening))  # type: ignore[arg-type]
    runner.run(opening.aclose())  # type: ignore[attr-defined]


@given(answers, cuttings, st.sampled_from(["stop", "stop", "length", "content_filter", ""]), st.sampled_from([ZH, EN]))
@settings(max_examples=25, deadline=None)
def test_a_clients_joined_stream_is_the_answer(
    runner: asyncio.Runner,
    parts: tuple[Engine, ScriptedModel],
    text: str,
    places: list[int],
    reason: str,
    query: str,
) -> None:
    """In both languages, with any chunking, finished, cut off, withheld or broken off; no invented year is streamed."""
    engine, script = parts
    script.answer, script.pieces, script.reason = text, cut(text, places), reason
    reader, answer = runner.run(ask(engine, query))
    assert reader.text == answer.answer_text
    assert reader.kinds[:2] == ["begin", "start"]
    assert "replace" not in reader.kinds[:-1]
    invented = {claim.value for token in reader.tokens for claim in find_claims(token) if claim.kind == "year"} & {
        "1850"
    }
    assert not invented
    assert ("model" in answer.degraded) == (reason != "stop")


@pytest.fixture
async def script() -> AsyncIterator[ScriptedModel]:
    """A scripted model."""
    async with scripted_model() as running:
        yield running


@pytest.mark.parametrize(
    "query", [ZH, EN, "你好", "今天股票怎么样？", "请列出家训", "What is the price of tea in Paris?"]
)
async def test_without_a_model_the_tokens_are_the_answer(query: str) -> None:
    """Joined as they are."""
    async with engine_at("memory://") as engine:
        reader, answer = await ask(engine, query)
    assert "".join(reader.tokens) == answer.answer_text


async def test_an_answer_is_streamed_as_it_was_written(script: ScriptedModel) -> None:
    """With Markdown, spaces and line breaks; the first sentence before the model has written the second."""
    script.answer = "# 祠堂\n\n祠堂由严守正主持创建。  \n\n- 始建于明嘉靖二年（1523年）。"
    script.pieces = list(script.answer)
    async with engine_at("memory://", **script.settings) as engine:
        reader, answer = await ask(engine, ZH)
    assert answer.answer_text == script.answer == "".join(reader.tokens)
    assert "replace" not in reader.kinds
    assert reader.kinds.index("token") < len(reader.kinds) - 3


async def test_a_model_that_breaks_off_is_replaced(script: ScriptedModel) -> None:
    """The extractive answer replaces the streamed text; the turn reports that the model failed, not its message."""
    script.pieces, script.reason = ["祠堂由严守正主持创建。第二句", "还没"], ""
    async with engine_at("memory://", **script.settings) as engine:
        reader, answer = await ask(engine, ZH)
        trace = (await engine.traces.get(Scope("default", "default", "visitor"), answer.trace_id)).record
    assert reader.tokens == ["祠堂由严守正主持创建。"]
    assert reader.kinds[-1] == "replace"
    assert reader.text == answer.answer_text
    assert answer.degraded == ["model"]
    assert trace.policy_reason == "model_failed: openai:scripted: the answer broke off: no finish_reason"


async def test_an_answer_that_the_model_cut_off_is_marked(script: ScriptedModel) -> None:
    """Its incomplete last sentence is left out; if nothing is left, the answer is conservative."""
    script.reason = "length"
    async with engine_at("memory://", **script.settings) as engine:
        script.answer = "祠堂由严守正主持创建。严守正是七世"
        reader, answer = await ask(engine, ZH)
        assert reader.text == answer.answer_text == "祠堂由严守正主持创建。"
        assert (answer.policy_mode, answer.degraded) == ("normal", ["model"])
        trace = (await engine.traces.get(Scope("default", "default", "visitor"), answer.trace_id)).record
        assert trace.policy_reason == "cut_off"
        script.answer = "严守正是七世"
        reader, answer = await ask(engine, ZH)
        assert reader.text == answer.answer_text
        assert (answer.policy_mode, answer.degraded) == ("conservative", ["model"])


async def test_a_repeated_request_streams_the_stored_answer() -> None:
    """With a start event, as tokens."""
    async with engine_at("memory://") as engine:
        _, first = await ask(engine, ZH, idempotency_key="k")
        reader, again = await ask(engine, ZH, idempotency_key="k")
    assert again == first
    assert set(reader.kinds[1:]) == {"token"}
    assert (reader.kinds[0], reader.text) == ("start", first.answer_text)


@pytest.mark.parametrize("output", ["a\ud83d祠堂由严守正主持创建。", "祠堂由严守正主持创建。\0\x1b[2J"])
async def test_over_http_every_stream_has_an_end(tmp_path: Path, script: ScriptedModel, output: str) -> None:
    """Also if the model writes characters that cannot be sent or stored."""
    script.answer = output
    script.pieces = [output]
    async with open_service(tmp_path, **script.settings) as service:
        body = {"npc_id": "ancestor_yan", "query": ZH, "stream": True}
        response: httpx.Response = await service.client.post(CHAT, json=body)
        reader = StreamClient()
        events = events_in(response.text)
        for name, data in events:
            reader.take(name, data)
    assert events[-1][0] == "done"
    assert events[-1][1]["answer_text"] == reader.text
    assert "严守正" in reader.text
