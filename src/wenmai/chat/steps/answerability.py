"""Answerability check before the model."""

import msgspec

from wenmai.chat.steps.retrieve import SEARCH
from wenmai.chat.turn import LARGE, TurnRun, TurnState
from wenmai.grounding.answerability import check_answerability
from wenmai.grounding.policy import merge_policies
from wenmai.grounding.types import PolicyMode, count_characters
from wenmai.resilience.offload import run_by_size

NOT_SEARCHED = "search_failed"
"""The reason of a verdict if the evidence could not be searched."""


async def judge_answerability(state: TurnState, run: TurnRun) -> TurnState:
    """Whether and how the question may be answered; independent of memory.

    Reasons are those of :func:`check_answerability`, and :data:`NOT_SEARCHED`.
    """
    understanding, profile = state["understanding"], run.services.profile
    persona = state["persona"].persona
    policy = merge_policies(profile.policy, persona.policy, profile.intent_policy.get(understanding.dialogue_act, {}))
    query, passages = state["request"].query, state["retrieved"].passages
    verdict = await run_by_size(
        len(query) + count_characters(passages),
        LARGE,
        check_answerability,
        query,
        understanding.dialogue_act,
        passages,
        policy,
        profile.forbidden,
        standalone_question=state["rewritten"].text,
        known=list(persona.name.values()),
        lexicon=run.services.lexicon,
    )
    if SEARCH in state["retrieved"].degraded and verdict.mode is not PolicyMode.REFUSE:
        verdict = msgspec.structs.replace(verdict, mode=PolicyMode.CONSERVATIVE, reason=NOT_SEARCHED)
    return {"verdict": verdict}
