"""Retrieve evidence for the planned questions, in the persona's domains."""

import asyncio

from wenmai.chat.steps.business_state import search_filters
from wenmai.chat.turn import Retrieved, TurnRun, TurnState
from wenmai.chat.understanding.plan import Search
from wenmai.errors import StoreUnavailable
from wenmai.grounding.evidence import SearchResult
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
    searches = state["plan"].searches
    limit = _WITH_FOCUS if state["focus"].turns else PASSAGES
    try:
        finding = [_find(state, run, search, limit) for search in searches]
        found = [await finding[0]] if len(finding) == 1 else await asyncio.gather(*finding)
    except StoreUnavailable:
        return {"retrieved": Retrieved(degraded=[SEARCH])}
    found_for = {search: result.passages for search, (result, _) in zip(searches, found, strict=True)}
    limited = frozenset(search for search, (_, within) in zip(searches, found, strict=True) if within)
    unique: dict[str, Passage] = {}
    for passage in (passage for passages in found_for.values() for passage in passages[:PASSAGES]):
        unique.setdefault(passage.evidence_id, passage)
    degraded = sorted({part for result, _ in found for part in result.degraded})
    return {
        "retrieved": Retrieved(passages=list(unique.values()), found_for=found_for, limited=limited, degraded=degraded)
    }


async def _find(state: TurnState, run: TurnRun, search: Search, limit: int) -> tuple[SearchResult, bool]:
    """Search within what the business state limits the question to; if nothing is found there, without this limit.

    Returns:
        The result, and whether it is within these limits.
    """
    scope, language, rules = state["request"].scope, state["recalled"].language, run.services.profile.business
    domains = state["persona"].persona.domains
    limits = search_filters(state.get("business"), rules.filters if rules else (), domains)
    if limits and not search.anywhere:
        within = {"domains": domains} | limits
        if search.about in limits.get("tags", ()):
            within["tags"] = [search.about]
        found = await run.services.evidence.find(scope, search.text, **within, language=language, limit=limit)
        if found.passages:
            return found, True
    return await run.services.evidence.find(scope, search.text, domains=domains, language=language, limit=limit), False
