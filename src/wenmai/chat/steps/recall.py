"""Recall how this visitor likes to be answered."""

from wenmai.chat.evidence.fields import guess_language
from wenmai.chat.turn import Recalled, TurnRun, TurnState


async def recall(state: TurnState, run: TurnRun) -> TurnState:
    """Preferences, and the language of the answer: the chosen one, the shown one, else the question's own."""
    request, opened = state["request"], state["opened"]
    spoken = guess_language(request.query)
    if request.incognito:
        return {"recalled": Recalled(preferences=None, language=spoken, verbosity="normal")}
    stored = await run.services.memory.preferences.get(request.scope, opened.thread.session_id)
    values = stored.values
    settled = "language" in values.chosen or "language" in values.sources
    recalled = Recalled(
        preferences=values,
        language=values.language if settled else spoken,
        verbosity=values.verbosity,
    )
    return {"recalled": recalled}
