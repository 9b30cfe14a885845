"""Complete the answer's record, keep the trace, and note what the session should know of itself."""

import asyncio
import time
from typing import Any

import msgspec

from wenmai.chat.profile import in_language
from wenmai.chat.turn import TurnAnswer, TurnRun, TurnState
from wenmai.chat.types import PolicyMode
from wenmai.memory.sessions import title_from_question
from wenmai.stores.records import Session, TraceRecord

FOLLOWUPS = 3


async def complete(state: TurnState, run: TurnRun) -> TurnState:
    """Everything that must be stored before the visitor has the answer, in one step of the store."""
    answer = _answer(state, run)
    request, opened, draft = state["request"], state["opened"], state["draft"]
    memory = run.services.memory
    await asyncio.gather(
        memory.transcript.settle(
            request.scope,
            opened.thread,
            opened.answer.seq,
            content=answer.answer_text,
            metadata={"trace_id": run.trace_id, "policy_mode": answer.policy_mode},
        ),
        run.services.traces.save(request.scope, trace_of(state, run, answer)),
    )
    if opened.first or draft.prompt_tokens or draft.completion_tokens:
        await memory.sessions.change(request.scope, opened.thread.session_id, lambda session: _noted(session, state))
    return {"answer": answer}


def _noted(session: Session, state: TurnState) -> Session:
    """The session's record after the turn: its first question and title, and what the model cost."""
    draft = state["draft"]
    spent = draft.prompt_tokens + draft.completion_tokens
    changes: dict[str, Any] = {
        "total_tokens_used": session.total_tokens_used + spent,
        "total_cost_usd": session.total_cost_usd + draft.cost_usd,
    }
    query = state["request"].query
    if not session.first_question:
        changes["first_question"] = query
        if not session.title_by:
            changes |= {"title": title_from_question(query), "title_by": "rule"}
    return msgspec.structs.replace(session, **changes)


def _answer(state: TurnState, run: TurnRun) -> TurnAnswer:
    settled, opened = state["settled"], state["opened"]
    persona, language = state["persona"].persona, state["recalled"].language
    return TurnAnswer(
        trace_id=run.trace_id,
        session_id=opened.thread.session_id,
        turn_id=opened.turn_id,
        policy_mode=settled.mode,
        answer_text=settled.text,
        citations=settled.citations,
        followup_questions=_followups(state),
        npc_id=persona.npc_id,
        npc_name=in_language(persona.name, language),
        latency_ms=round((time.perf_counter() - run.started) * 1000, 3),
        timestamp=run.services.clock(),
        degraded=degraded(state),
    )


def degraded(state: TurnState) -> list[str]:
    """What did not work as it should in this turn."""
    found = list(state["retrieved"].degraded) if "retrieved" in state else []
    return [*found, "model"] if "draft" in state and state["draft"].failure else found


def _followups(state: TurnState) -> list[str]:
    """Questions that the visitor may like to ask next: of the cited domains first, none that was asked already."""
    if state["settled"].mode is PolicyMode.REFUSE:
        return []
    persona, language = state["persona"].persona, state["recalled"].language
    cited = {citation.evidence_id for citation in state["settled"].citations}
    domains = [
        domain for passage in state["verdict"].passages if passage.evidence_id in cited for domain in passage.domains
    ]
    offered = [
        question
        for domain in [*domains, ""]
        for question in in_language(persona.followups.get(domain, {language: []}), language)
    ]
    asked = {message.content for message in state["opened"].window} | {state["request"].query}
    fresh = [question for question in dict.fromkeys(offered) if question not in asked]
    start = state["opened"].turn_id % max(1, len(fresh) - FOLLOWUPS + 1)
    return fresh[start : start + FOLLOWUPS]


def trace_of(state: TurnState, run: TurnRun, answer: TurnAnswer | None, error: str | None = None) -> TraceRecord:
    """The trace of a turn; of one that failed, as far as it came."""
    request = state["request"]
    opened, rewritten, verdict = state.get("opened"), state.get("rewritten"), state.get("verdict")
    understood, built, draft, settled = (
        state.get("understood"),
        state.get("prompt"),
        state.get("draft"),
        state.get("settled"),
    )
    source, version = run.prompt_source
    completed_at = run.services.clock()
    return TraceRecord(
        trace_id=run.trace_id,
        session_id=opened.thread.session_id if opened else request.session_id or "",
        npc_id=request.npc_id,
        turn_id=opened.turn_id if opened else 0,
        request_input={
            "query": request.query,
            "rewritten_query": rewritten.text if rewritten else request.query,
            "npc_id": request.npc_id,
            "session_id": request.session_id,
            "prompt_version": version,
            "prompt_source": source,
            "persona_version": state["persona"].version if "persona" in state else None,
        },
        tool_calls=run.steps,
        intent=understood.intent.value if understood else "",
        evidence_ids=[citation.evidence_id for citation in answer.citations] if answer else [],
        policy_mode=settled.mode.value if settled else PolicyMode.CONSERVATIVE.value,
        policy_reason=settled.reason if settled else "",
        blocks=[msgspec.to_builtins(block) for block in built.blocks] if built else [],
        answer=answer.answer_text if answer else "",
        model=draft.model if draft else "",
        prompt_tokens=draft.prompt_tokens if draft else 0,
        completion_tokens=draft.completion_tokens if draft else 0,
        cost_usd=draft.cost_usd if draft else 0.0,
        latency_ms=round((time.perf_counter() - run.started) * 1000, 3),
        degraded=degraded(state),
        started_at=run.started_at,
        completed_at=completed_at,
        error=error,
        details={
            "cut": built.cut if built else {},
            "carried": rewritten.carried if rewritten else [],
            "matched": understood.matched if understood else [],
            "passages": [
                {"evidence_id": passage.evidence_id, "score": passage.score, "number": passage.number}
                for passage in (state["retrieved"].passages if "retrieved" in state else [])
            ],
            "premises": list(verdict.premises) if verdict else [],
            "sources_disagree": verdict.disagree if verdict else False,
            "unsupported": settled.unsupported if settled else [],
            "answer": msgspec.to_builtins(answer) if answer else None,
        },
    )
