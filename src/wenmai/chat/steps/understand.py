"""Understand the question: rewrite it for the search and classify its dialogue act."""

from wenmai.chat.turn import LARGE, TurnRun, TurnState
from wenmai.chat.understanding.dialogue_acts import classify
from wenmai.chat.understanding.rewrite import Rewrite, rewrite
from wenmai.resilience.offload import run_by_size


async def rewrite_question(state: TurnState, run: TurnRun) -> TurnState:
    """Rewrite the question for the search; the question itself is never changed."""
    window = state["opened"].window
    query = state["request"].query
    if not window:
        return {"rewritten": Rewrite(text=query, carried=[])}
    size = len(query) + sum(len(message.content) for message in window)
    return {"rewritten": await run_by_size(size, LARGE, rewrite, query, window, run.services.lexicon)}


async def classify_question(state: TurnState, run: TurnRun) -> TurnState:
    """Classify the question's dialogue act and answer type."""
    in_conversation = bool(state["opened"].window)
    services, query = run.services, state["request"].query
    understanding = classify(
        query, words=services.profile.intents, in_conversation=in_conversation, lexicon=services.lexicon
    )
    return {"understanding": understanding}
