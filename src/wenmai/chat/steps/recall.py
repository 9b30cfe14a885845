"""Recall the user's preferences, the summary of what was said before the window, and related earlier turns."""

import asyncio
from collections.abc import Sequence

from wenmai.chat.turn import Recalled, TurnRun, TurnState
from wenmai.errors import StoreUnavailable
from wenmai.grounding.evidence.fields import detect_language
from wenmai.memory.line_blocks import EPISODES
from wenmai.memory.summaries import MIN_MESSAGES
from wenmai.resilience.degradation import note_degraded
from wenmai.stores.records import Message

RECALL = "recall"
"""Key in ``degraded``: earlier turns could not be searched."""


async def recall(state: TurnState, run: TurnRun) -> TurnState:
    """Preferences, summary, and the language of the answer: chosen, else inferred, else that of the question."""
    request, opened = state["request"], state["opened"]
    spoken = detect_language(request.query)
    if request.incognito:
        return {"recalled": Recalled(preferences=None, language=spoken, verbosity="normal")}
    memory, scope, thread = run.services.memory, request.scope, opened.thread
    preferences, summary = memory.preferences.get(scope, thread.session_id), None
    if opened.answer.seq > MIN_MESSAGES and run.services.policy.memory_enabled:
        stored, summary = await asyncio.gather(preferences, memory.summaries.get(scope, thread))
    else:  # a short thread has no summary
        stored = await preferences
    values = stored.values
    known = "language" in values.chosen or "language" in values.sources
    recalled = Recalled(
        preferences=values,
        summary=summary,
        language=values.language if known else spoken,
        verbosity=values.verbosity,
    )
    return {"recalled": recalled}


async def recall_episodes(state: TurnState, run: TurnRun, shown: Sequence[Message]) -> list[str]:
    """Earlier turns of the user with this persona that are related to the question, most related first.

    None for an incognito turn, without the memory, or on a store without search; none, and a degraded turn, while the
    search is unavailable.

    Args:
        state: of the turn.
        run: with the services.
        shown: messages of the prompt's history; their turns are not recalled.
    """
    request, opened, memory = state["request"], state["opened"], run.services.memory
    recalled = state["recalled"]
    if request.incognito or not run.services.policy.memory_enabled:
        return []
    try:
        return await memory.recalls.related_turns(
            request.scope,
            opened.thread.persona_id,
            state["rewritten"].text.strip() or request.query,
            shown=shown,
            known=recalled.summary.text.splitlines() if recalled.summary else (),
            tokens=EPISODES.room(
                memory.policy.block_weights["episodes"].limit, recalled.language, run.services.count_tokens
            ),
            before=opened.answer.timestamp,
        )
    except StoreUnavailable:
        note_degraded(RECALL)
        return []
