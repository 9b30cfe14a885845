"""Understand the question: complete it from the talk for the search, and see what it is after."""

import asyncio

from wenmai.chat.intent import classify
from wenmai.chat.rewrite import Rewrite, rewrite
from wenmai.chat.turn import TurnRun, TurnState


async def rewrite_question(state: TurnState, run: TurnRun) -> TurnState:
    """What to search for; the question itself is never changed."""
    window = state["opened"].window
    query = state["request"].query
    if not window:
        return {"rewritten": Rewrite(text=query, carried=[])}
    topic_words = run.services.profile.topic_words
    # A window may hold long messages; other turns go on meanwhile.
    return {"rewritten": await asyncio.to_thread(rewrite, query, window, topic_words)}


async def classify_question(state: TurnState, run: TurnRun) -> TurnState:
    """The question's intent, and the kind of answer that it wants."""
    in_talk = bool(state["opened"].window)
    words = run.services.profile.intents
    return {"understood": classify(state["request"].query, words=words, in_talk=in_talk)}
