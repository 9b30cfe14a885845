"""The gate before the model."""

from wenmai.chat.gate.before import before_model
from wenmai.chat.gate.policy import layered
from wenmai.chat.turn import TurnRun, TurnState


async def gate(state: TurnState, run: TurnRun) -> TurnState:
    """Whether and how the question may be answered; memory has no say in it."""
    understood, profile = state["understood"], run.services.profile
    persona = state["persona"].persona
    policy = layered(profile.policy, persona.policy, profile.intent_policy.get(understood.intent, {}))
    verdict = before_model(
        state["request"].query,
        understood.intent,
        understood.focus,
        state["retrieved"].passages,
        policy,
        profile.forbidden,
        searched=state["rewritten"].text,
        known=list(persona.name.values()),
    )
    return {"verdict": verdict}
