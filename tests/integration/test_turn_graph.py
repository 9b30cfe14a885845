"""The LangGraph graph of a turn, made of the same table of nodes that the service runs."""

import pytest

from support import engine_at
from wenmai.chat import pipeline
from wenmai.chat.graph import build_graph
from wenmai.chat.nodes import FIRST, NODES
from wenmai.chat.turn import TurnAnswer, TurnRequest, TurnRun, TurnState
from wenmai.scope import Scope
from wenmai.stores.records import TraceRecord

USER = Scope("default", "default", "visitor")


def test_the_graph_has_the_nodes_and_branches_of_the_table() -> None:
    """It can be drawn, and shows each decision."""
    drawn = build_graph().get_graph()
    table = {(name, end or "__end__") for name, node in NODES.items() for end in node.successors or (None,)}
    assert {(edge.source, edge.target) for edge in drawn.edges} == table | {("__start__", FIRST)}


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
