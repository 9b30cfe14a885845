"""The turn as a compiled LangGraph graph, to be drawn, streamed, or mounted as a subgraph.

The service does not import this module: it runs the same table of nodes without LangGraph (see docs/decisions).
"""

from collections.abc import Awaitable, Callable
from typing import Any

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

from wenmai.chat.nodes import FIRST, NODES, Node, run_steps
from wenmai.chat.turn import TurnRun, TurnState


def build_graph() -> Any:
    """The compiled graph of :data:`wenmai.chat.nodes.NODES`; its context is a :class:`TurnRun`."""
    graph = StateGraph(TurnState, context_schema=TurnRun)
    graph.add_edge(START, FIRST)
    for name, node in NODES.items():
        graph.add_node(name, _run(node))
        if node.successors:
            graph.add_conditional_edges(name, _decide(node), [successor or END for successor in node.successors])
        else:
            graph.add_edge(name, END)
    return graph.compile()


def _run(node: Node) -> Callable[..., Awaitable[TurnState]]:
    async def run(state: TurnState, runtime: Runtime[TurnRun]) -> TurnState:
        return await run_steps(node.steps, state, runtime.context)

    return run


def _decide(node: Node) -> Callable[..., Awaitable[str]]:
    # Asynchronous although it awaits nothing: LangGraph runs plain functions in a thread.
    async def decide(state: TurnState, runtime: Runtime[TurnRun]) -> str:
        return node.then(state, runtime.context) or END

    return decide
