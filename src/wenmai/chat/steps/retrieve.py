"""Retrieve evidence for the standalone question, in the persona's domains."""

from wenmai.chat.turn import Retrieved, TurnRun, TurnState
from wenmai.errors import StoreUnavailable
from wenmai.grounding.types import DialogueAct

PASSAGES = 6

SEARCH = "search"
"""Key in ``degraded``: the evidence could not be searched."""


async def retrieve(state: TurnState, run: TurnRun) -> TurnState:
    """The best passages; none for a message that seeks no fact, nor while the evidence cannot be searched.

    If the whole store is unavailable, the turn fails when it is completed.
    """
    if state["understanding"].dialogue_act is not DialogueAct.FACT_SEEKING:
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
