"""Retrieve evidence for the question as it was completed, in the persona's domains."""

from wenmai.chat.turn import Retrieved, TurnRun, TurnState
from wenmai.chat.types import Intent

PASSAGES = 6


async def retrieve(state: TurnState, run: TurnRun) -> TurnState:
    """The best passages; none for a question that seeks no fact."""
    if state["understood"].intent is not Intent.FACT_SEEKING:
        return {"retrieved": Retrieved()}
    found = await run.services.evidence.find(
        state["request"].scope,
        state["rewritten"].text,
        domains=state["persona"].persona.domains,
        language=state["recalled"].language,
        limit=PASSAGES,
    )
    return {"retrieved": Retrieved(passages=found.passages, degraded=found.degraded)}
