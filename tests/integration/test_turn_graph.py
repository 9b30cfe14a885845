"""The LangGraph graph of a turn, made of the same table of nodes that the service runs."""

import re
from typing import Any

import msgspec
import pytest
from langgraph.graph import START, StateGraph
from typer.testing import CliRunner

from support import engine_at
from wenmai.chat import pipeline
from wenmai.chat.graph import build_graph
from wenmai.chat.nodes import FIRST, NODES
from wenmai.chat.turn import StepEnded, TurnAnswer, TurnEvent, TurnRequest, TurnRun, TurnState
from wenmai.cli.app import app
from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.records import TraceRecord

USER = Scope("default", "default", "visitor")


def test_the_graph_has_the_nodes_and_branches_of_the_table() -> None:
    """It can be drawn, and shows each decision."""
    drawn = build_graph().get_graph()
    table = {(name, end or "__end__") for name, node in NODES.items() for end in node.successors or (None,)}
    assert {(edge.source, edge.target) for edge in drawn.edges} == table | {("__start__", FIRST)}


def test_the_command_draws_the_same_graph() -> None:
    """As a Mermaid diagram, with the steps of each node."""
    shown = CliRunner().invoke(app, ["graph"])
    edges = set(re.findall(r"(\w+)(?:\(.*\))? --> (\w+)", shown.stdout))
    assert edges == {(edge.source, edge.target) for edge in build_graph().get_graph().edges}
    assert 'open["open: open, recall"]' in shown.stdout


async def test_a_turn_that_fails_in_a_graph_of_the_callers_own_is_recorded() -> None:
    """With its error in the transcript and the trace; the thread is free for the next turn, and steps are events."""
    graph = StateGraph(TurnState, context_schema=TurnRun)
    graph.add_node("turn", build_graph())
    graph.add_edge(START, "turn")
    mine: Any = graph.compile()
    steps: list[str] = []
    trace_ids: list[str] = []

    async def on_event(event: TurnEvent) -> None:
        steps.extend([event.name] if isinstance(event, StepEnded) else [])

    async def run_until_judged(turn: TurnRun) -> None:
        async for _, update in mine.astream(turn.state, context=turn, stream_mode="updates", subgraphs=True):
            if "judge" in update:
                raise RuntimeError

    async with engine_at("memory://") as engine:
        request = TurnRequest(scope=USER, persona_id="ancestor_yan", query="请问严氏家训有哪些？", session_id="visit")

        async def fail() -> None:
            async with engine.chat.turn(request, on_event=on_event) as turn:
                trace_ids.append(turn.trace_id)
                await run_until_judged(turn)

        with pytest.raises(RuntimeError):
            await fail()
        session = await engine.memory.session("visit", scope=USER, persona_id="ancestor_yan")
        _, unfinished = await session.messages()
        assert (unfinished.completed, unfinished.metadata["error"]) == (False, "RuntimeError")
        assert (await engine.traces.get(USER, trace_ids[0])).record.error == "RuntimeError"
        async with engine.chat.turn(request) as again:
            state = await mine.ainvoke(again.state, context=again)
        assert (await session.messages())[-1].content == state["answer"].answer_text
        with pytest.raises(InvalidInput, match="idempotency_key"):
            async with engine.chat.turn(msgspec.structs.replace(request, idempotency_key="k")):
                pass
    assert steps[:2] == ["open", "recall"]


async def test_the_graph_answers_like_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """Same answers, citations, steps and verdicts, turn by turn."""
    graph = build_graph()
    by_service = await _conversation()

    async def run_graph(run: TurnRun) -> TurnState:
        state: TurnState = await graph.ainvoke(run.state, context=run)
        return state

    monkeypatch.setattr(pipeline, "run_nodes", run_graph)
    assert await _conversation() == by_service


async def _conversation() -> list[object]:
    seen: list[object] = []
    async with engine_at("memory://") as engine:
        for query in ("请问严氏家训有哪些？", "第一条是什么？", "你好", "村里有多少台电脑？"):
            request = TurnRequest(scope=USER, persona_id="ancestor_yan", query=query, session_id="visit")
            answer = await engine.chat.ask(request)
            seen.append(_without_times(answer, (await engine.traces.get(USER, answer.trace_id)).record))
    return seen


def _without_times(answer: TurnAnswer, trace: TraceRecord) -> object:
    steps = [(step.name, step.status) for step in trace.tool_calls]
    return answer.answer_text, answer.policy_mode, answer.citations, answer.turn_id, steps, trace.blocks
