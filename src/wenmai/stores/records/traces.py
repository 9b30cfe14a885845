"""The parts of a trace; stored as JSON, in which unknown fields are ignored and missing ones have their defaults."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from wenmai.stores.records.state import Operation, StateChange
from wenmai.stores.records.usage import BudgetStatus, TokenUsage

PolicyModeName = Literal["normal", "conservative", "refuse"]
Rating = Literal["up", "down"]
StepStatus = Literal["ok", "skipped", "degraded", "blocked", "error"]


class Block(msgspec.Struct, frozen=True):
    """A part of a prompt: kind, text as the model sees it, token count."""

    kind: Annotated[str, Meta(description="The kind of block, such as `preferences`.")]
    text: Annotated[str, Meta(description="The text.")]
    tokens: Annotated[int, Meta(description="Estimated tokens.")]


class HistoryCut(msgspec.Struct, frozen=True, kw_only=True):
    """How the conversation was cut: a window by turns and characters, a prompt by messages."""

    messages: Annotated[int | UnsetType, Meta(description="Messages of the window that were left out.")] = UNSET
    turns_left_out: Annotated[bool | UnsetType, Meta(description="Whether older turns were left out.")] = UNSET
    characters_shortened: Annotated[int | UnsetType, Meta(description="Characters cut from the newest turn.")] = UNSET
    tokens: Annotated[int | UnsetType, Meta(description="Tokens of what was left out for lack of room.")] = UNSET


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What was cut to stay within the limits, by kind of block; empty if nothing was."""

    preferences: Annotated[int | UnsetType, Meta(description="Tokens of the preferences, which were left out.")] = UNSET
    summary: Annotated[int | UnsetType, Meta(description="Tokens by which the summary was shortened.")] = UNSET
    episodes: Annotated[int | UnsetType, Meta(description="Tokens of related turns that were left out.")] = UNSET
    history: Annotated[HistoryCut | UnsetType, Meta(description="How the conversation was cut.")] = UNSET
    others: Annotated[
        dict[str, int] | UnsetType, Meta(description="Tokens by which other blocks were shortened, by their kind.")
    ] = UNSET


class TurnStep(msgspec.Struct, frozen=True):
    """A step of a turn."""

    name: Annotated[str, Meta(description="The step, such as `retrieve`.")]
    status: Annotated[StepStatus, Meta(description="`blocked`: the policy mode is not `normal`.")]
    duration_ms: Annotated[float, Meta(description="Duration in milliseconds.")]


class TurnInput(msgspec.Struct, frozen=True, kw_only=True):
    """The request of a turn, and the versions that it was answered with."""

    query: Annotated[str, Meta(description="The question as asked.")] = ""
    rewritten_query: Annotated[str, Meta(description="The question as rewritten for retrieval.")] = ""
    persona_id: Annotated[str, Meta(description="The persona's id.")] = msgspec.field(default="", name="npc_id")
    session_id: Annotated[str | None, Meta(description="The session's id.")] = None
    role: Annotated[str | None, Meta(description="The user's role; null without one.")] = None
    prompt_version: Annotated[int | None, Meta(description="Version of the registered prompt; null without one.")] = (
        None
    )
    prompt_source: Annotated[
        Literal["npc_profile", "prompt_registry"], Meta(description="The source of the system prompt.")
    ] = "npc_profile"
    persona_version: Annotated[int | None, Meta(description="Version of the persona.")] = None


class ScoredPassage(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that was found."""

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    score: Annotated[float, Meta(description="The part of the question that it covers, 0 to 1.")]
    number: Annotated[int, Meta(description="Rank, from 1.")]


class StoredCitation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that supports the answer."""

    evidence_id: Annotated[str, Meta(description="The passage's id.")]
    title: Annotated[str, Meta(description="Its title.")]
    source_ref: Annotated[str, Meta(description="The source, such as a book and page.")]
    excerpt: Annotated[str, Meta(description="The part that supports the answer, at most 100 characters.")]
    score: Annotated[float, Meta(description="The part of the question that it covers, 0 to 1.")]


class StoredAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer as it was returned, for a repeated Idempotency-Key."""

    trace_id: Annotated[str, Meta(description="The id of the turn's trace.")]
    session_id: Annotated[str, Meta(description="The session's id.")]
    turn_id: Annotated[int, Meta(description="The turn's number in its thread, from 1.")]
    policy_mode: Annotated[PolicyModeName, Meta(description="The policy mode.")]
    answer_text: Annotated[str, Meta(description="The whole answer.")]
    citations: Annotated[list[StoredCitation], Meta(description="The passages that support the answer.")]
    followup_questions: Annotated[list[str], Meta(description="Suggested follow-up questions.")]
    persona_id: Annotated[str, Meta(description="The persona that answered.")] = msgspec.field(name="npc_id")
    persona_name: Annotated[str, Meta(description="The persona's name, in the language of the answer.")] = (
        msgspec.field(name="npc_name")
    )
    latency_ms: Annotated[float, Meta(description="Milliseconds from the request to the answer.")]
    timestamp: Annotated[datetime, Meta(description="Time at which the answer was stored.")]
    degraded: Annotated[list[str], Meta(description="Components that failed or were skipped.")] = []


class RemovedStatement(msgspec.Struct, frozen=True, kw_only=True):
    """A statement of the model that verification removed."""

    text: Annotated[str, Meta(description="The text, verbatim.")]
    reason: Annotated[str, Meta(description="The check that it failed, such as `value` or `polarity`.")]
    replaced_by: Annotated[str, Meta(description="The quotation in its place; empty if there is none.")] = ""


class StateTrace(msgspec.Struct, frozen=True, kw_only=True):
    """The business state in a turn."""

    version: Annotated[int, Meta(description="Version of the state after the message.")]
    current_customer_id: Annotated[str | None, Meta(description="The current customer.")]
    operation: Annotated[Operation | None, Meta(description="The current operation.")]
    changes: Annotated[list[StateChange], Meta(description="The changes that the message made, oldest first.")]
    filters: Annotated[dict[str, list[str]], Meta(description="What the search was limited to first.")] = {}
    by_model: Annotated[bool, Meta(description="Whether the model understood the message, or the rules' words.")] = (
        False
    )


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """What the user thinks of an answer."""

    rating: Annotated[Rating, Meta(description="`up` or `down`.")]
    reason: Annotated[str, Meta(description="Why, in the user's words; may be empty.")] = ""
    at: Annotated[datetime, Meta(description="Time of the feedback.")]


class TraceDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Further details of the steps."""

    cut: Annotated[Cut, Meta(description="What was cut from the prompt.")] = Cut()
    carried: Annotated[list[str], Meta(description="Words that rewriting took from the conversation.")] = []
    matched: Annotated[list[str], Meta(description="The rules that gave the intent.")] = []
    business: Annotated[
        StateTrace | UnsetType, Meta(description="The business state in this turn; absent without business rules.")
    ] = UNSET
    passages: Annotated[list[ScoredPassage], Meta(description="The passages found, best first.")] = []
    premises: Annotated[
        list[str], Meta(description="Premises of the question that the evidence does not support.")
    ] = []
    sources_disagree: Annotated[bool, Meta(description="Whether the passages contradict each other.")] = False
    removed: Annotated[
        list[RemovedStatement], Meta(description="The model's statements without evidence, in order.")
    ] = []
    budget: Annotated[
        list[BudgetStatus] | UnsetType, Meta(description="The budgets before the model was called; not in a replay.")
    ] = UNSET
    answer: Annotated[StoredAnswer | None, Meta(description="The answer as returned; null if the turn failed.")] = None
    title: Annotated[TokenUsage | UnsetType, Meta(description="Model usage for the session's title, if any.")] = UNSET
    feedback: Annotated[Feedback | UnsetType, Meta(description="The user's feedback on the answer, if any.")] = UNSET
