"""Recall the user's preferences, and the summary of what was said before the window."""

import asyncio

from wenmai.chat.turn import Recalled, TurnRun, TurnState
from wenmai.grounding.evidence.fields import detect_language
from wenmai.memory.summaries import MIN_MESSAGES, ThreadSummary


async def recall(state: TurnState, run: TurnRun) -> TurnState:
    """Preferences, summary, and the language of the answer: chosen, else inferred, else that of the question."""
    request, opened = state["request"], state["opened"]
    spoken = detect_language(request.query)
    if request.incognito:
        return {"recalled": Recalled(preferences=None, language=spoken, verbosity="normal")}
    stored, summary = await asyncio.gather(
        run.services.memory.preferences.get(request.scope, opened.thread.session_id), _summary(state, run)
    )
    values = stored.values
    known = "language" in values.chosen or "language" in values.sources
    recalled = Recalled(
        preferences=values,
        summary=summary,
        language=values.language if known else spoken,
        verbosity=values.verbosity,
    )
    return {"recalled": recalled}


async def _summary(state: TurnState, run: TurnRun) -> ThreadSummary | None:
    """The thread's summary; a short thread has none, so that it costs no read."""
    opened = state["opened"]
    if opened.answer.seq <= MIN_MESSAGES or not run.services.policy.memory_enabled:
        return None
    return await run.services.memory.summaries.get(state["request"].scope, opened.thread)
