"""The whole turn, streamed, with a real OpenAI-protocol server; once with that server killed mid-answer."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from model_server import ModelServer
from support import engine_at
from wenmai.chat.steps import generate
from wenmai.chat.turn import TurnEvent, TurnRequest
from wenmai.engine import Engine
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.evidence import record_from
from wenmai.grounding.types import PolicyMode
from wenmai.scope import Scope, ThreadKey

pytestmark = pytest.mark.xdist_group("model")

USER = Scope("default", "default", "visitor")
QUESTION = "When was the Yan ancestral hall built?"
PASSAGES = (
    "The Yan ancestral hall was built in 1523. It was rebuilt in 1852 and repaired in 1987.",
    "The well is four metres deep.",
    "The family keeps twelve precepts.",
)


@asynccontextmanager
async def through(server: ModelServer) -> AsyncIterator[Engine]:
    """The engine with that model, a few passages and a short answer, as it reads 150 tokens a second; long timeouts."""
    async with engine_at(
        "memory://",
        sample_sites="",
        model=f"openai:{server.model}",
        model_base_url=server.base_url,
        model_max_tokens=128,
        model_first_token_seconds=90,
        model_timeout_seconds=100,
    ) as engine:
        await engine.evidence.ingest(USER, [record_from({"text": text, "domains": ["hall"]}) for text in PASSAGES])
        yield engine


async def ask(engine: Engine, events: list[TurnEvent], query: str = QUESTION) -> tuple[str, PolicyMode, list[str], str]:
    """One streamed turn: its text, mode, what was degraded, and its trace id."""

    async def listen(event: TurnEvent) -> None:
        events.append(event)

    request = TurnRequest(scope=USER, persona_id="village_elder", query=query)
    answer = await engine.chat.ask(request, on_event=listen)
    return answer.answer_text, answer.policy_mode, answer.degraded, answer.trace_id


async def test_a_turn_runs_through_a_real_model(model_server: ModelServer) -> None:
    """The model gets the blocks, its tokens are counted, and invented facts are not in the answer."""
    events: list[TurnEvent] = []
    async with through(model_server) as engine:
        text, mode, degraded, trace_id = await ask(engine, events)
        trace = (await engine.traces.get(USER, trace_id)).record
        session = await engine.memory.sessions.get(USER, trace.session_id)
    assert text
    assert degraded == (["model"] if trace.policy_reason.startswith("cut_off") else [])
    assert trace.model == f"openai:{model_server.model}"
    assert trace.prompt_tokens > 0
    assert trace.completion_tokens > 0
    assert session.record.total_tokens_used == trace.prompt_tokens + trace.completion_tokens
    evidence = next(block.text for block in trace.blocks if block.kind == "evidence")
    known = {claim.value for claim in find_claims(evidence)}
    years = {claim.value for claim in find_claims(text) if claim.kind == "year"}
    assert years <= known
    assert mode is PolicyMode.NORMAL or trace.policy_reason
    assert [event.kind for event in events[:2]] == ["begin", "start"]


async def test_a_model_killed_mid_answer_leaves_a_whole_turn(
    model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn completes from the evidence, reports the model as degraded, and nothing is half-written."""
    pieces: list[str] = []
    receive = generate._CheckedStream.add

    async def receive_and_kill(stream: generate._CheckedStream, piece: str) -> None:
        pieces.append(piece)
        if len(pieces) == 2:
            model_server.kill()
        await receive(stream, piece)

    monkeypatch.setattr(generate._CheckedStream, "add", receive_and_kill)
    async with through(model_server) as engine:
        text, mode, degraded, trace_id = await ask(engine, [])
        trace = (await engine.traces.get(USER, trace_id)).record
        thread = ThreadKey(trace.session_id, "village_elder")
        messages = await engine.memory.transcript.latest(USER, thread, 10)
    assert len(pieces) >= 2
    assert degraded == ["model"]
    assert mode is PolicyMode.CONSERVATIVE
    assert trace.policy_reason.startswith("model_failed")
    assert "1523" in text
    assert [message.completed for message in messages] == [True, True]
    assert messages[-1].content == text
