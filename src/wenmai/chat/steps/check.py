"""Verification after the model: the evidence must support the answer."""

from wenmai.chat.steps.generate import OFFLINE, conservative_text
from wenmai.chat.turn import LARGE, CheckedAnswer, Draft, TurnRun, TurnState
from wenmai.chat.verifying import verification_arguments
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.citations import citations
from wenmai.grounding.policy import merge_policies
from wenmai.grounding.types import PolicyMode, count_characters
from wenmai.grounding.verification import Removed, verify_answer
from wenmai.resilience.offload import run_by_size

CUT_OFF = "cut_off"
"""The reason of an answer that reached the length limit; its unfinished last sentence is dropped."""


async def check(state: TurnState, run: TurnRun) -> TurnState:
    """Verify the answer and add its citations. An extractive answer quotes evidence and needs no verification."""
    draft, verdict = state["draft"], state["verdict"]
    if draft.model == OFFLINE:
        mode = PolicyMode.CONSERVATIVE if draft.failure or draft.exhausted else verdict.mode
        return {"checked": await _answer(state, run, draft.text, mode, _reason(draft, verdict), draft.cited, [])}
    size = len(draft.text) + count_characters(verdict.passages)
    checked = await run_by_size(
        size,
        LARGE,
        verify_answer,
        draft.text,
        cut_off=draft.cut_off,
        **verification_arguments(state, run),
    )
    text = checked.text or conservative_text(state, run)
    reason = "; ".join(part for part in (CUT_OFF * draft.cut_off, checked.reason) if part) or verdict.reason
    cited = checked.cited if checked.text else []
    return {"checked": await _answer(state, run, text, checked.mode, reason, cited, checked.removed)}


def _reason(draft: Draft, verdict: Verdict) -> str:
    """The reason of an extractive answer."""
    if draft.failure:
        return f"model_failed: {draft.failure}"
    return f"budget_exhausted: {draft.exhausted}" if draft.exhausted else verdict.reason


async def _answer(
    state: TurnState,
    run: TurnRun,
    text: str,
    mode: PolicyMode,
    reason: str,
    cited: list[int],
    removed: list[Removed],
) -> CheckedAnswer:
    profile, persona = run.services.profile, state["persona"].persona
    dialogue_act = state["understanding"].dialogue_act
    policy = merge_policies(profile.policy, persona.policy, profile.intent_policy.get(dialogue_act, {}))
    passages = state["verdict"].passages
    size = len(text) + count_characters(passages)
    found = await run_by_size(size, LARGE, citations, passages, cited, answer=text, limit=policy.max_citations)
    return CheckedAnswer(text=text, mode=mode, reason=reason, citations=found, removed=removed)
