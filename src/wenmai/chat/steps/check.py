"""Verification after the model: the evidence must support the answer."""

from wenmai.chat.steps.generate import OFFLINE, conservative_text
from wenmai.chat.turn import LARGE, VERIFIED_AT_ONCE, CheckedAnswer, Draft, TurnRun, TurnState
from wenmai.chat.verifier import VerifierFailed
from wenmai.chat.verifying import verification_arguments
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.citations import citations
from wenmai.grounding.policy import merge_policies
from wenmai.grounding.types import PolicyMode, count_characters
from wenmai.grounding.verification import verify_answer
from wenmai.grounding.verified_answer import Removed, VerifiedAnswer, reject_statements
from wenmai.resilience.offload import run_by_size

VERIFIER = "verifier"
"""The name of the verifier among degraded components."""

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
        VERIFIED_AT_ONCE,
        verify_answer,
        draft.text,
        cut_off=draft.cut_off,
        **verification_arguments(state, run),
    )
    checked = await _tightened(checked, state, run)
    text = checked.text or conservative_text(state, run)
    reason = "; ".join(part for part in (CUT_OFF * draft.cut_off, checked.reason) if part) or verdict.reason
    cited = checked.cited if checked.text else []
    decided = verdict.mode is PolicyMode.NORMAL or cited
    mode = checked.mode if decided else PolicyMode.CONSERVATIVE
    reason = reason if decided else "; ".join(dict.fromkeys((verdict.reason, reason)))
    return {"checked": await _answer(state, run, text, mode, reason, cited, checked.removed)}


async def _tightened(checked: VerifiedAnswer, state: TurnState, run: TurnRun) -> VerifiedAnswer:
    """The answer without the statements that the verifier rejects; as it is if there is none or it fails."""
    if run.services.verifier is None or not checked.statements:
        return checked
    passages = state["verdict"].passages
    try:
        rejected = await run.services.verifier.rejected(checked.statements, passages, run.meter)
    except VerifierFailed:
        run.degradations[VERIFIER] = None
        return checked
    if not rejected:
        return checked
    return await run_by_size(
        len(checked.text) + count_characters(passages),
        VERIFIED_AT_ONCE,
        reject_statements,
        checked,
        rejected,
        question=state["request"].query,
        passages=passages,
        language=state["recalled"].language,
    )


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
