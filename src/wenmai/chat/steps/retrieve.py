"""Retrieve evidence for the planned questions, in the persona's domains."""

import asyncio

from wenmai.chat.turn import Retrieved, TurnRun, TurnState
from wenmai.errors import StoreUnavailable
from wenmai.grounding.types import SEARCHING, Passage

PASSAGES = 6
"""Passages that a question is judged on."""

_WITH_FOCUS = 12
"""Passages that are found where cited ones may be judged too, which rank lower for a question of few words."""

SEARCH = "search"
"""Key in ``degraded``: the evidence could not be searched."""


async def retrieve(state: TurnState, run: TurnRun) -> TurnState:
    """The best passages of each question; none for a message that seeks no fact, nor while no search is possible.

    If the whole store is unavailable, the turn fails when it is completed.
    """
    if state["understanding"].dialogue_act not in SEARCHING:
        return {"retrieved": Retrieved()}
    texts = state["plan"].searches
    limit = _WITH_FOCUS if state["focus"].turns else PASSAGES
    try:
        found = await asyncio.gather(
            *(
                run.services.evidence.find(
                    state["request"].scope,
                    text,
                    domains=state["persona"].persona.domains,
                    language=state["recalled"].language,
                    limit=limit,
                )
                for text in texts
            )
        )
    except StoreUnavailable:
        return {"retrieved": Retrieved(degraded=[SEARCH])}
    found_for = {text: result.passages for text, result in zip(texts, found, strict=True)}
    unique: dict[str, Passage] = {}
    for passage in (passage for passages in found_for.values() for passage in passages[:PASSAGES]):
        unique.setdefault(passage.evidence_id, passage)
    degraded = sorted({part for result in found for part in result.degraded})
    return {"retrieved": Retrieved(passages=list(unique.values()), found_for=found_for, degraded=degraded)}
