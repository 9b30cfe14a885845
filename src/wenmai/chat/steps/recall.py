"""Recall the user's preferences."""

from wenmai.chat.turn import Recalled, TurnRun, TurnState
from wenmai.grounding.evidence.fields import detect_language


async def recall(state: TurnState, run: TurnRun) -> TurnState:
    """Preferences, and the language of the answer: chosen, else inferred, else that of the question."""
    request, opened = state["request"], state["opened"]
    spoken = detect_language(request.query)
    if request.incognito:
        return {"recalled": Recalled(preferences=None, language=spoken, verbosity="normal")}
    stored = await run.services.memory.preferences.get(request.scope, opened.thread.session_id)
    values = stored.values
    known = "language" in values.chosen or "language" in values.sources
    recalled = Recalled(
        preferences=values,
        language=values.language if known else spoken,
        verbosity=values.verbosity,
    )
    return {"recalled": recalled}
