"""The turn as a table of nodes: which steps run in which order, and where a turn branches.

The table is the only definition of the order. :func:`run_nodes` runs it, and :mod:`wenmai.chat.graph` makes a LangGraph
graph of it. Every step is timed into the trace.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from wenmai.chat.steps.answerability import judge_answerability
from wenmai.chat.steps.business_state import STATE, update_state
from wenmai.chat.steps.check import check
from wenmai.chat.steps.complete import complete
from wenmai.chat.steps.generate import OFFLINE, compose_answer, generate, prompt, wants_model
from wenmai.chat.steps.open_turn import open_turn
from wenmai.chat.steps.recall import recall
from wenmai.chat.steps.retrieve import retrieve
from wenmai.chat.steps.understand import classify_question, rewrite_question
from wenmai.chat.turn import StepEnded, TurnRun, TurnState
from wenmai.grounding.types import SEARCHING
from wenmai.stores.records import StepStatus

Step = Callable[[TurnState, TurnRun], Awaitable[TurnState]]


class Node(NamedTuple):
    """Steps that always follow each other, and the decision after them.

    Attributes:
        steps: with the names that they have in traces.
        then: returns the name of the next node, one of ``successors``; None ends the turn.
        successors: empty if the turn ends here.
    """

    steps: tuple[tuple[str, Step], ...]
    then: Callable[[TurnState, TurnRun], str | None] = lambda _state, _run: None
    successors: tuple[str | None, ...] = ()


def _after_open(state: TurnState, _run: TurnRun) -> str | None:
    """A question already answered under the same Idempotency-Key is not answered again."""
    return None if state["opened"].answer.completed else "judge"


def _after_judge(state: TurnState, run: TurnRun) -> str:
    return "generate" if wants_model(state, run) else "compose"


FIRST = "open"
_ENDING = ("check", check), ("complete", complete)
NODES = {
    FIRST: Node((("open", open_turn), ("recall", recall)), _after_open, ("judge", None)),
    "judge": Node(
        (
            ("state", update_state),
            ("rewrite", rewrite_question),
            ("classify", classify_question),
            ("retrieve", retrieve),
            ("gate", judge_answerability),
            ("prompt", prompt),
        ),
        _after_judge,
        ("generate", "compose"),
    ),
    "generate": Node((("generate", generate), *_ENDING)),
    "compose": Node((("generate", compose_answer), *_ENDING)),
}


async def run_nodes(run: TurnRun) -> TurnState:
    """Run the turn from the first node to its end; returns its state."""
    name: str | None = FIRST
    while name is not None:
        node = NODES[name]
        await run_steps(node.steps, run.state, run)
        name = node.then(run.state, run)
    return run.state


async def run_steps(steps: Sequence[tuple[str, Step]], state: TurnState, run: TurnRun) -> TurnState:
    """Run steps in order; returns what they added to the state. Each is recorded with status and duration."""
    seen: TurnState = {**state}
    added: TurnState = {}
    for name, step in steps:
        began = time.perf_counter()
        status: StepStatus = "error"
        try:
            update = await step(seen, run)
            seen.update(update)
            added.update(update)
            run.state.update(update)
            status = _status(name, seen, run)
        finally:
            ended = _record(run, name, status, began)
        await run.emit(ended)
    return added


def _record(run: TurnRun, name: str, status: StepStatus, began: float) -> StepEnded:
    ended = StepEnded(name, status, round((time.perf_counter() - began) * 1000, 3))
    run.steps.append(ended)
    return ended


def _status(name: str, state: TurnState, run: TurnRun) -> StepStatus:
    if name == "state" and "business" not in state:
        return "degraded" if STATE in run.degradations else "skipped"
    return _status_of_answering(name, state, run)


def _status_of_answering(name: str, state: TurnState, run: TurnRun) -> StepStatus:
    if name == "retrieve" and not state["retrieved"].passages and state["understanding"].dialogue_act not in SEARCHING:
        return "skipped"
    if name == "retrieve" and state["retrieved"].degraded:
        return "degraded"
    if name == "gate" and state["verdict"].mode != "normal" and not wants_model(state, run):
        return "blocked"
    if name == "generate" and (state["draft"].failure or state["draft"].exhausted or state["draft"].cut_off):
        return "degraded"
    if name == "check" and state["draft"].model == OFFLINE:
        return "skipped"
    return "ok"
