"""Complete the answer message, store the trace, and record usage and the first question."""

import time
from contextlib import suppress

import msgspec

from wenmai.chat.steps.business_state import search_filters
from wenmai.chat.steps.followups import FOLLOWUPS, offered_questions
from wenmai.chat.turn import TurnAnswer, TurnRun, TurnState
from wenmai.chat.understanding.focus import CITED
from wenmai.config.texts import in_language
from wenmai.errors import SessionNotFound
from wenmai.grounding.types import SEARCHING
from wenmai.memory.first_question import with_first_question
from wenmai.memory.trace_archive import trace_ref
from wenmai.resilience.shielded import all_of, run_to_completion
from wenmai.stores.records import (
    Cut,
    Message,
    RemovedStatement,
    ScoredPassage,
    StateTrace,
    StoredAnswer,
    TraceDetails,
    TraceRecord,
    TurnInput,
)


async def complete(state: TurnState, run: TurnRun) -> TurnState:
    """Store everything that must be durable before the user gets the answer.

    A turn cancelled meanwhile still stores all of it, so an answer in the transcript always has its trace.
    """
    return await run_to_completion(_complete(state, run))


async def _complete(state: TurnState, run: TurnRun) -> TurnState:
    offered = offered_questions(state)
    scope, language = state["request"].scope, state["recalled"].language
    followups = await run.services.suggestions.pick(scope, state["persona"], language, offered, FOLLOWUPS)
    answer = _answer(state, run, followups)
    opened = state["opened"]
    filled, _ = await all_of(_store(state, run, answer), record_usage(state, run))
    if opened.first:
        await _record_first_question(state, run)
    earlier = None if filled else await _earlier_attempt(state, run)
    if earlier is not None:
        return {"opened": msgspec.structs.replace(opened, answer=earlier)}
    if not filled:
        await run.services.traces.drop(state["request"].scope, run.trace_id)
    return {"answer": answer}


async def _record_first_question(state: TurnState, run: TurnRun) -> None:
    """Store the session's first question and a title, unless it was deleted meanwhile."""
    scope, opened = state["request"].scope, state["opened"]
    thread, question = opened.thread, opened.question.content
    sessions = run.services.memory.sessions
    with suppress(SessionNotFound):
        await sessions.change(
            scope,
            thread.session_id,
            lambda session: with_first_question(session, question, final=sessions.rule_titles_final),
            incarnation=thread.incarnation,
        )


async def record_usage(state: TurnState, run: TurnRun) -> None:
    """Add the usage of the turn's model calls to session, user, persona and tenant; once, however the turn ends."""
    if "opened" in state:
        thread = state["opened"].thread
        await run.services.memory.usage.add(
            state["request"].scope,
            thread.session_id,
            run.meter.take(),
            incarnation=thread.incarnation,
            persona_id=thread.persona_id,
        )


async def _store(state: TurnState, run: TurnRun, answer: TurnAnswer) -> bool:
    """Store the trace and complete the answer message; False if it was deleted or already completed."""
    request, opened = state["request"], state["opened"]
    tracing = run.services.traces.save(request.scope, trace_of(state, run, answer))
    filling = run.services.memory.transcript.complete(
        request.scope,
        opened.thread,
        opened.answer,
        content=answer.answer_text,
        metadata={
            "trace_id": run.trace_id,
            "policy_mode": answer.policy_mode,
            CITED: [citation.evidence_id for citation in answer.citations],
        },
    )
    if request.idempotency_key is None:
        filled, _ = await all_of(filling, tracing)
    else:
        # A retry reads a completed answer back from its trace, so the trace must be stored first.
        await tracing
        filled = await filling
    return filled is not None


async def _earlier_attempt(state: TurnState, run: TurnRun) -> Message | None:
    """The answer of another attempt with the same key, which was faster; this turn's answer is then discarded.

    It happens to a process that was paused for longer than its claim on the key lasts. None if the answer message was
    deleted with its thread.
    """
    request, opened = state["request"], state["opened"]
    found = await run.services.memory.transcript.latest(request.scope, opened.thread, 1, before=opened.answer.seq + 1)
    if not found or found[0].id != opened.answer.id:
        return None
    await run.services.traces.save(request.scope, trace_of(state, run, None, "another attempt answered first"))
    return found[0]


def _answer(state: TurnState, run: TurnRun, followups: list[str]) -> TurnAnswer:
    checked, opened = state["checked"], state["opened"]
    persona, language = state["persona"].persona, state["recalled"].language
    return TurnAnswer(
        trace_id=run.trace_id,
        session_id=opened.thread.session_id,
        turn_id=opened.turn_id,
        policy_mode=checked.mode,
        answer_text=checked.text,
        citations=checked.citations,
        followup_questions=followups,
        persona_id=persona.persona_id,
        persona_name=in_language(persona.name, language),
        latency_ms=round((time.perf_counter() - run.started) * 1000, 3),
        timestamp=run.services.clock(),
        degraded=degraded(state, run),
    )


def degraded(state: TurnState, run: TurnRun) -> list[str]:
    """The degraded parts of this turn, each name once, sorted."""
    found = {*run.degradations, *(state["retrieved"].degraded if "retrieved" in state else ())}
    if "draft" in state and (state["draft"].failure or state["draft"].cut_off):
        found.add("model")
    if "draft" in state and state["draft"].exhausted:
        found.add("budget")
    return sorted(found)


def trace_of(state: TurnState, run: TurnRun, answer: TurnAnswer | None, error: str | None = None) -> TraceRecord:
    """The trace of a turn; of a failed one, as far as it got."""
    request = state["request"]
    opened, rewritten = state.get("opened"), state.get("rewritten")
    understanding, built, draft, checked = (
        state.get("understanding"),
        state.get("prompt"),
        state.get("draft"),
        state.get("checked"),
    )
    usage = run.meter.usage
    completed_at = run.services.clock()
    return TraceRecord(
        ref=trace_ref(request.scope, run.trace_id),
        trace_id=run.trace_id,
        session_id=opened.thread.session_id if opened else "",
        incarnation=opened.thread.incarnation or "" if opened else "",
        persona_id=request.persona_id,
        turn_id=opened.turn_id if opened else 0,
        request_input=TurnInput(
            query=request.query,
            rewritten_query=rewritten.text if rewritten else request.query,
            persona_id=request.persona_id,
            session_id=request.session_id,
            role=request.role,
            prompt_version=built.version if built else None,
            prompt_source="npc_profile" if built is None or built.version is None else "prompt_registry",
            persona_version=state["persona"].version if "persona" in state else None,
        ),
        tool_calls=run.steps,
        intent=understanding.dialogue_act.value if understanding else "",
        evidence_ids=[citation.evidence_id for citation in answer.citations] if answer else [],
        policy_mode=checked.mode.value if checked else "conservative",
        policy_reason=checked.reason if checked else "",
        blocks=built.blocks if built else [],
        answer=answer.answer_text if answer else "",
        model=draft.model if draft else "",
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cost_usd=usage.cost_usd,
        latency_ms=round((time.perf_counter() - run.started) * 1000, 3),
        degraded=degraded(state, run),
        started_at=run.started_at,
        completed_at=completed_at,
        error=error,
        details=_details(state, run, answer),
    )


def _business(state: TurnState, run: TurnRun) -> StateTrace | msgspec.UnsetType:
    update, rules = state.get("business"), run.services.profile.business
    if update is None or rules is None:
        return msgspec.UNSET
    searched = "understanding" in state and state["understanding"].dialogue_act in SEARCHING
    return StateTrace(
        version=update.state.state_version,
        current_customer_id=update.state.current_customer_id,
        operation=update.state.current,
        changes=update.changes,
        filters=search_filters(update, rules.filters, state["persona"].persona.domains) if searched else {},
        by_model=update.by_model,
    )


def _details(state: TurnState, run: TurnRun, answer: TurnAnswer | None) -> TraceDetails:
    """What the steps found, as far as the turn got."""
    built, draft, checked = state.get("prompt"), state.get("draft"), state.get("checked")
    rewritten, understanding, verdict = state.get("rewritten"), state.get("understanding"), state.get("verdict")
    return TraceDetails(
        cut=built.cut if built else Cut(),
        carried=rewritten.carried if rewritten else [],
        matched=understanding.matched if understanding else [],
        business=_business(state, run),
        passages=[
            ScoredPassage(evidence_id=passage.evidence_id, score=passage.score, number=passage.number)
            for passage in (state["retrieved"].passages if "retrieved" in state else [])
        ],
        premises=list(verdict.unsupported_premises) if verdict else [],
        sources_disagree=verdict.sources_conflict if verdict else False,
        removed=[
            RemovedStatement(text=each.text, reason=each.reason, replaced_by=each.replaced_by)
            for each in (checked.removed if checked else [])
        ],
        budget=draft.budgets if draft else [],
        answer=msgspec.convert(msgspec.to_builtins(answer), StoredAnswer) if answer else None,
    )
