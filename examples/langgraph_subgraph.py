"""A turn of a persona as a subgraph of your own LangGraph graph, with a node before it and a node after it.

Needs ``pip install 'wenmai[chat]'``. The state of your graph extends that of the turn; the turn itself is the context.
"""

import asyncio
from typing import Any

from langgraph.graph import END, START, StateGraph

from wenmai.chat.graph import build_graph
from wenmai.chat.turn import TurnRequest, TurnRun, TurnState
from wenmai.engine import load_engine_settings, open_engine
from wenmai.scope import Scope


class MyState(TurnState, total=False):
    """The state of the turn, and a value of your own."""

    sources: list[str]


async def greet(state: MyState) -> MyState:
    """A node before the turn; it may read the request."""
    print(f"> {state['request'].query}")
    return {}


async def list_sources(state: MyState) -> MyState:
    """A node after the turn; the answer is verified and stored."""
    return {"sources": [citation.source_ref for citation in state["answer"].citations]}


async def main() -> None:
    """Ask, and print each node of the subgraph as it ends."""
    graph = StateGraph(MyState, context_schema=TurnRun)
    graph.add_node("greet", greet)
    graph.add_node("turn", build_graph())
    graph.add_node("list_sources", list_sources)
    for before, after in ((START, "greet"), ("greet", "turn"), ("turn", "list_sources"), ("list_sources", END)):
        graph.add_edge(before, after)
    mine: Any = graph.compile()
    settings = load_engine_settings(flags={"store": "memory://"}).values
    async with open_engine(settings) as engine:
        request = TurnRequest(scope=Scope(), persona_id="ancestor_yan", query="祠堂是哪一年建的？")
        state: dict[str, Any] = {}
        async with engine.chat.turn(request) as turn:
            async for path, update in mine.astream(turn.state, context=turn, stream_mode="updates", subgraphs=True):
                for node, values in update.items():
                    print(*path, node)
                    state |= values or {}
        assert state["answer"].policy_mode == "normal"
        print(state["answer"].answer_text, *state["sources"], sep="\n")
        assert (await engine.traces.get(Scope(), state["answer"].trace_id)).record.answer == state["answer"].answer_text


if __name__ == "__main__":
    asyncio.run(main())
