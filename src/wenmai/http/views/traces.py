"""Traces as the routes return them."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wenmai.http.views import view_of
from wenmai.http.views.sessions import SummaryView, ThreadSummaryView
from wenmai.stores.records import Block, PolicyModeName, Rating, TraceDetails, TraceRecord, TurnInput, TurnStep


class TraceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Fields of a trace and of its entry in a list."""

    trace_id: Annotated[str, Meta(description="The trace's id.")]
    session_id: Annotated[str, Meta(description="The session's id.")]
    persona_id: Annotated[str, Meta(description="The persona's id.")] = msgspec.field(name="npc_id")
    turn_id: Annotated[int, Meta(description="The turn's number in its thread, from 1.")]
    intent: Annotated[str, Meta(description="The recognized intent, such as `fact_seeking`.")]
    policy_mode: Annotated[
        PolicyModeName,
        Meta(description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."),
    ]
    policy_reason: Annotated[str, Meta(description="The reason for the policy mode.")]
    model: Annotated[str, Meta(description="The model that answered; `offline` without one.")]
    latency_ms: Annotated[float, Meta(description="Milliseconds from the request to the answer.")]
    degraded: Annotated[list[str], Meta(description="Components that failed or were skipped; normally empty.")]
    started_at: Annotated[datetime, Meta(description="Start of the turn.")]
    error: Annotated[str | None, Meta(description="The error of a failed turn; null on success.")]
    replay_of: Annotated[str | None, Meta(description="The id of the replayed trace; null for a turn.")]


class TraceSummary(TraceFacts, frozen=True, kw_only=True):
    """A trace as listed."""

    query: Annotated[str, Meta(description="The question.")]
    rating: Annotated[Rating | None, Meta(description="The user's feedback on the answer; null without any.")]


class TracePage(msgspec.Struct, frozen=True, kw_only=True):
    """Traces, newest first; `next` is null on the last page."""

    traces: Annotated[list[TraceSummary], Meta(description="The traces of this page.")]
    next: Annotated[str | None, Meta(description="Cursor of the next page; null on the last page.")]


class TraceView(TraceFacts, frozen=True, kw_only=True):
    """Everything about one turn."""

    user_id: Annotated[str, Meta(description="The user.")]
    request_input: Annotated[
        TurnInput, Meta(description="The request, with the query as asked and as rewritten for retrieval.")
    ]
    tool_calls: Annotated[list[TurnStep], Meta(description="The steps: name, status, duration_ms.")]
    evidence_ids: Annotated[list[str], Meta(description="Ids of the passages found, best first.")]
    blocks: Annotated[list[Block], Meta(description="The blocks of the prompt: kind, text, tokens.")]
    answer: Annotated[str, Meta(description="The stored answer.")]
    prompt_tokens: Annotated[int, Meta(description="Prompt tokens.")]
    completion_tokens: Annotated[int, Meta(description="Completion tokens.")]
    cost_usd: Annotated[
        float, Meta(description="Cost of the model calls in US dollars, for models with a configured price.")
    ]
    completed_at: Annotated[datetime, Meta(description="Time at which the answer was stored.")]
    details: Annotated[
        TraceDetails, Meta(description="Further details of the steps, such as query rewriting, scores and the title.")
    ]


class TraceWithSession(TraceView, frozen=True, kw_only=True):
    """A trace; with `include_session=true` also the current session, null if it was deleted."""

    session_summary: Annotated[
        SummaryView | UnsetType | None,
        Meta(description="The current session; null if it was deleted, absent without `include_session`."),
    ] = UNSET
    thread_summary: Annotated[
        ThreadSummaryView | UnsetType | None,
        Meta(
            description="The current rolling summary of the trace's thread; null if it has none, absent without "
            "`include_session`."
        ),
    ] = UNSET


class ReplayModels(msgspec.Struct, frozen=True, kw_only=True):
    """Models that a replay may use."""

    models: Annotated[list[str], Meta(description="Their names; empty if the service has no model.")]


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """A trace and its replay."""

    original: Annotated[TraceView, Meta(description="The trace that was replayed.")]
    replayed: Annotated[TraceView, Meta(description="The replay: the same blocks sent to the model again.")]


def trace_summary(record: TraceRecord) -> TraceSummary:
    """A trace as listed."""
    feedback = record.details.feedback
    rating = None if feedback is UNSET else feedback.rating
    return view_of(record, TraceSummary, query=record.request_input.query, rating=rating)


def trace_view(record: TraceRecord, user_id: str) -> TraceView:
    """A whole trace, without its storage references."""
    return view_of(record, TraceView, user_id=user_id)


def trace_with_session(
    record: TraceRecord,
    user_id: str,
    session: SummaryView | UnsetType | None = UNSET,
    thread: ThreadSummaryView | UnsetType | None = UNSET,
) -> TraceWithSession:
    """A whole trace; UNSET leaves out the session, or the summary of its thread."""
    return view_of(record, TraceWithSession, user_id=user_id, session_summary=session, thread_summary=thread)
