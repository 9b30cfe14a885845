"""Retrieve evidence for the question as it was completed, in the persona's domains."""

from wenmai.chat.turn import Retrieved, TurnRun, TurnState
from wenmai.chat.types import Intent
from wenmai.errors import StoreUnavailable

PASSAGES = 6

SEARCH = "search"
"""In ``degraded``: the evidence could not be searched."""


async def retrieve(state: TurnState, run: TurnRun) -> TurnState:
    """The best passages; none for a question that seeks no fact, nor while the evidence cannot be searched.

    If it is the store of all that cannot be reached, the turn fails when it is to be completed.
    """
    if state["understood"].intent is not Intent.FACT_SEEKING:
        return {"retrieved": Retrieved()}
    try:
        found = await run.services.evidence.find(
            state["request"].scope,
            state["rewritten"].text,
            domains=state["persona"].persona.domains,
            language=state["recalled"].language,
            limit=PASSAGES,
        )
    except StoreUnavailable:
        return {"retrieved": Retrieved(degraded=[SEARCH])}
    return {"retrieved": Retrieved(passages=found.passages, degraded=found.degraded)}
