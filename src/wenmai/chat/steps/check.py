"""The gate after the model: what is said must stand in the evidence."""

import asyncio

from wenmai.chat.gate.after import after_model, citations
from wenmai.chat.gate.before import Verdict
from wenmai.chat.gate.policy import layered
from wenmai.chat.steps.generate import OFFLINE, conservative_text
from wenmai.chat.turn import Draft, Settled, TurnRun, TurnState
from wenmai.chat.types import PolicyMode

CUT_OFF = "cut_off"
"""The reason of an answer that the model did not finish within its limit; its last sentence is left out."""


async def check(state: TurnState, run: TurnRun) -> TurnState:
    """The answer as it may be given, with its citations. A composed answer quotes evidence, so it stands."""
    draft, verdict = state["draft"], state["verdict"]
    if draft.model == OFFLINE:
        mode = PolicyMode.CONSERVATIVE if draft.failure or draft.exhausted else verdict.mode
        return {"settled": await _settled(state, run, draft.text, mode, _reason(draft, verdict), draft.cited, [])}
    # In a thread: a long answer takes longer than other turns should wait.
    checked = await asyncio.to_thread(
        after_model,
        draft.text,
        question=state["request"].query,
        passages=verdict.passages,
        language=state["recalled"].language,
        persona_names=list(state["persona"].persona.name.values()),
        cut_off=draft.cut_off,
    )
    text = checked.text or conservative_text(state, run)
    unsupported = [claim.text for claim in checked.unsupported]
    reason = "; ".join(part for part in (CUT_OFF * draft.cut_off, checked.reason) if part) or verdict.reason
    cited = checked.cited if checked.text else []
    return {"settled": await _settled(state, run, text, checked.mode, reason, cited, unsupported)}


def _reason(draft: Draft, verdict: Verdict) -> str:
    """Why a composed answer is given as it is."""
    if draft.failure:
        return f"model_failed: {draft.failure}"
    return f"budget_exhausted: {draft.exhausted}" if draft.exhausted else verdict.reason


async def _settled(
    state: TurnState,
    run: TurnRun,
    text: str,
    mode: PolicyMode,
    reason: str,
    cited: list[int],
    unsupported: list[str],
) -> Settled:
    profile, persona = run.services.profile, state["persona"].persona
    intent = state["understood"].intent
    policy = layered(profile.policy, persona.policy, profile.intent_policy.get(intent, {}))
    shown = await asyncio.to_thread(citations, state["verdict"].passages, cited, about=text, limit=policy.max_citations)
    return Settled(text=text, mode=mode, reason=reason, citations=shown, unsupported=unsupported)
