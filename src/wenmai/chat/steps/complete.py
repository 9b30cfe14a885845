"""Complete the answer's record, keep the trace, and note what the session should know of itself."""

import time
from contextlib import suppress
from typing import Any

import msgspec

from wenmai.chat.profile import in_language
from wenmai.chat.trace import trace_ref
from wenmai.chat.turn import TurnAnswer, TurnRun, TurnState
from wenmai.chat.types import PolicyMode
from wenmai.errors import SessionNotFound
from wenmai.memory.finishing import all_of, to_the_end
from wenmai.memory.sessions import title_from_question
from wenmai.stores.records import Message, Session, TraceRecord

FOLLOWUPS = 3


async def complete(state: TurnState, run: TurnRun) -> TurnState:
    """Everything that must be stored before the visitor has the answer, in one step of the store.

    A turn that is cancelled meanwhile still stores all of it: an answer in the transcript is never without its trace.
    """
    return await to_the_end(_complete(state, run))


async def _complete(state: TurnState, run: TurnRun) -> TurnState:
    answer = _answer(state, run)
    opened = state["opened"]
    filled, _ = await all_of(_store(state, run, answer), count_spent(state, run))
    if opened.first:
        await _note_first_question(state, run)
    earlier = None if filled else await _earlier(state, run)
    if earlier is not None:
        return {"opened": msgspec.structs.replace(opened, answer=earlier)}
    if not filled:
        await run.services.traces.drop(state["request"].scope, run.trace_id)
    return {"answer": answer}


async def _note_first_question(state: TurnState, run: TurnRun) -> None:
    """Give the session its first question and a title; nothing if it was deleted while the answer was made."""
    request, thread = state["request"], state["opened"].thread
    settled = run.services.model is None
    with suppress(SessionNotFound):
        await run.services.memory.sessions.change(
            request.scope,
            thread.session_id,
            lambda session: _begun(session, request.query, settled=settled),
            incarnation=thread.incarnation,
        )


async def count_spent(state: TurnState, run: TurnRun) -> None:
    """Add what the turn's model calls have used to session, user and tenant; once, however the turn ends."""
    if "opened" in state and not run.counted:
        run.counted = True
        thread = state["opened"].thread
        await run.services.memory.usage.add(
            state["request"].scope, thread.session_id, run.meter.spent, incarnation=thread.incarnation
        )


async def _store(state: TurnState, run: TurnRun, answer: TurnAnswer) -> bool:
    """Keep the trace and fill in the answer; False if there is nothing to be filled in any more."""
    request, opened = state["request"], state["opened"]
    tracing = run.services.traces.save(request.scope, trace_of(state, run, answer))
    filling = run.services.memory.transcript.settle(
        request.scope,
        opened.thread,
        opened.answer,
        content=answer.answer_text,
        metadata={"trace_id": run.trace_id, "policy_mode": answer.policy_mode},
    )
    if request.idempotency_key is None:
        filled, _ = await all_of(filling, tracing)
    else:
        # A retry reads a completed answer back from its trace, so no crash may come between the two.
        await tracing
        filled = await filling
    return filled is not None


async def _earlier(state: TurnState, run: TurnRun) -> Message | None:
    """The answer of another attempt with the same key, which was faster; this one then counts for nothing.

    It happens to a process that was paused for longer than its claim on the key lasts. None if the answer's record is
    gone, deleted with its thread.
    """
    request, opened = state["request"], state["opened"]
    found = await run.services.memory.transcript.latest(request.scope, opened.thread, 1, before=opened.answer.seq + 1)
    if not found or found[0].id != opened.answer.id:
        return None
    await run.services.traces.save(request.scope, trace_of(state, run, None, "another attempt answered first"))
    return found[0]


def _begun(session: Session, query: str, *, settled: bool) -> Session:
    """The session's record after its first question; the rule's title is settled where no model makes another."""
    if session.first_question:
        return session
    changes: dict[str, Any] = {"first_question": query}
    if not session.title_by:
        changes |= {"title": title_from_question(query), "title_by": "rule" if settled else ""}
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
        degraded=degraded(state, run),
    )


def degraded(state: TurnState, run: TurnRun) -> list[str]:
    """What did not work as it should in this turn, each name once, in the order of the alphabet."""
    found = {*run.noted, *(state["retrieved"].degraded if "retrieved" in state else ())}
    if "draft" in state and (state["draft"].failure or state["draft"].cut_off):
        found.add("model")
    if "draft" in state and state["draft"].exhausted:
        found.add("budget")
    return sorted(found)


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
    spent = run.meter.spent
    completed_at = run.services.clock()
    return TraceRecord(
        ref=trace_ref(request.scope, run.trace_id),
        trace_id=run.trace_id,
        session_id=opened.thread.session_id if opened else "",
        incarnation=opened.thread.incarnation or "" if opened else "",
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
        prompt_tokens=spent.prompt_tokens,
        completion_tokens=spent.completion_tokens,
        cost_usd=spent.cost_usd,
        latency_ms=round((time.perf_counter() - run.started) * 1000, 3),
        degraded=degraded(state, run),
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
            "budget": [msgspec.to_builtins(standing) for standing in run.standings],
            "answer": msgspec.to_builtins(answer) if answer else None,
        },
    )
