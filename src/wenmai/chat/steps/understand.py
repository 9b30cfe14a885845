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
    topic_words = run.services.profile.topic_words
    size = len(query) + sum(len(message.content) for message in window)
    return {"rewritten": await run_by_size(size, LARGE, rewrite, query, window, topic_words)}


async def classify_question(state: TurnState, run: TurnRun) -> TurnState:
    """Classify the question's dialogue act and answer type."""
    in_conversation = bool(state["opened"].window)
    words = run.services.profile.intents
    return {"understanding": classify(state["request"].query, words=words, in_conversation=in_conversation)}
