"""The gate before the model."""

import asyncio

import msgspec

from wenmai.chat.gate.before import before_model
from wenmai.chat.gate.policy import layered
from wenmai.chat.steps.retrieve import SEARCH
from wenmai.chat.turn import TurnRun, TurnState
from wenmai.chat.types import PolicyMode

NOT_SEARCHED = "search_failed"
"""The reason of a verdict without evidence, because the evidence could not be searched."""


async def gate(state: TurnState, run: TurnRun) -> TurnState:
    """Whether and how the question may be answered; memory has no say in it.

    Reasons are those of :func:`before_model`, and :data:`NOT_SEARCHED`.
    """
    understood, profile = state["understood"], run.services.profile
    persona = state["persona"].persona
    policy = layered(profile.policy, persona.policy, profile.intent_policy.get(understood.intent, {}))
    verdict = await asyncio.to_thread(  # long passages take a while to read; other turns go on meanwhile
        before_model,
        state["request"].query,
        understood.intent,
        understood.focus,
        state["retrieved"].passages,
        policy,
        profile.forbidden,
        searched=state["rewritten"].text,
        known=list(persona.name.values()),
    )
    if SEARCH in state["retrieved"].degraded and verdict.mode is not PolicyMode.REFUSE:
        verdict = msgspec.structs.replace(verdict, mode=PolicyMode.CONSERVATIVE, reason=NOT_SEARCHED)
    return {"verdict": verdict}
