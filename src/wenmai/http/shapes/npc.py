"""Shapes of the talk with personas: chat, sessions as they see them, preferences, traces."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictStr

from wenmai.chat.turn import QUERY_LIMIT
from wenmai.http.scope import OWNER_PATTERN, ScopeHeaders
from wenmai.http.shapes.common import Body, Id, PreferenceShown, Shape
from wenmai.stores.records import Role

PolicyModeName = Literal["normal", "conservative", "refuse"]
Owner = Annotated[StrictStr, Field(pattern=OWNER_PATTERN)]


def _asked(query: str) -> str:
    query = query.strip()
    if not 1 <= len(query) <= QUERY_LIMIT or "\0" in query:
        raise ValueError(f"1 to {QUERY_LIMIT} characters, blanks around them not counted")
    return query


Question = Annotated[
    StrictStr,
    Field(json_schema_extra={"pattern": r"^[^\x00]*\S[^\x00]*$", "minLength": 1, "maxLength": QUERY_LIMIT}),
    AfterValidator(_asked),
]


class ChatBody(Body):
    """A question to a persona."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tenant_id": "default",
                    "site_id": "default",
                    "npc_id": "ancestor_yan",
                    "query": "请问严氏家训有哪些？",
                }
            ]
        }
    )

    tenant_id: Owner | None = Field(default=None, description="As `X-Tenant-ID`, where that is not given.")
    site_id: Owner | None = Field(default=None, description="As `X-Site-ID`, where that is not given.")
    user_id: Owner | None = Field(default=None, description="As `X-User-ID`, where that is not given.")
    npc_id: Id = Field(description="Who is asked.")
    query: Question = Field(description="The question, 1 to 4000 characters.")
    session_id: Id | None = Field(default=None, description="Continue this session; left out, one begins.")
    incognito: StrictBool = Field(default=False, description="Use and change no preferences.")
    stream: StrictBool = Field(
        default=False, description="Answer with server-sent events, as `Accept: text/event-stream` does."
    )
    on_conflict: Literal["wait", "reject"] = Field(
        default="wait", description="While another turn of the thread runs: wait for it, or 409."
    )

    def owner(self) -> ScopeHeaders:
        """What the body says of the scope."""
        return ScopeHeaders(self.tenant_id, self.site_id, self.user_id)


class CitationShown(Shape):
    """A passage that supports the answer; the excerpt has at most 100 characters."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    source_ref: str = Field(description="Where it is from, such as a book and its page.")
    excerpt: str = Field(description="The part that supports the answer, at most 100 characters.")
    score: float = Field(description="How much of the question it covers, 0 to 1.")


class ChatAnswer(Shape):
    """The answer, stored before it is sent."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "trace_id": "trace-5f0c2f7a9b1e4d33",
                    "session_id": "session-8b6f0a1c2d3e4f50",
                    "turn_id": 1,
                    "policy_mode": "normal",
                    "answer_text": "后生问得好。家训第一条是孝悌为本。",
                    "citations": [
                        {
                            "evidence_id": "ev-0f3a",
                            "title": "严氏家训·第一条",
                            "source_ref": "family_precepts.md",
                            "excerpt": "一曰孝悌为本：事父母以诚，待兄弟以和。",
                            "score": 0.82,
                        }
                    ],
                    "followup_questions": ["有什么具体的故事吗？"],
                    "npc_id": "ancestor_yan",
                    "npc_name": "严氏先祖",
                    "latency_ms": 6.2,
                    "timestamp": "2026-01-05T14:00:00.120000Z",
                    "degraded": [],
                }
            ]
        }
    )

    trace_id: str = Field(description="The turn's trace.")
    session_id: str = Field(description="The session's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is too thin; `refuse` for a forbidden topic."
    )
    answer_text: str = Field(description="The answer, whole.")
    citations: list[CitationShown] = Field(description="The passages that support the answer, best first.")
    followup_questions: list[str] = Field(max_length=3, description="What the visitor may like to ask next.")
    npc_id: str = Field(description="The persona that answered.")
    npc_name: str = Field(description="The persona's name, in the language of the answer.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    timestamp: datetime = Field(description="When the answer was stored.")
    degraded: list[str] = Field(description="What did not work as it should, such as `model`.")


class RecentMessage(Shape):
    """A message, as a session's summary shows it."""

    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    npc_id: str = Field(description="The persona whose thread it is in.")
    role: Role = Field(description="Who says it.")
    content: str = Field(description="The wording.")
    timestamp: datetime = Field(description="When it was said.")
    completed: bool = Field(description="False for an answer that is not whole: still being made, or given up.")


class SessionSummary(Shape):
    """A session, or one persona's part of it; without `npc_id` all personas' messages are merged by time."""

    session_id: str = Field(description="The session's id.")
    npc_id: str | None = Field(description="The persona that was asked for; null for all.")
    title: str = Field(description="The session's title.")
    message_count: int = Field(description="How many messages there are.")
    recent_messages: list[RecentMessage] = Field(description="The newest messages, ascending.")
    first_message_at: datetime | None = Field(description="When the first one was said; null if there is none.")
    last_message_at: datetime | None = Field(description="When the newest one was said; null if there is none.")
    preference: PreferenceShown = Field(description="How the visitor likes to be answered.")


class Deleted(Shape):
    """What was deleted."""

    success: Literal[True] = Field(description="Always true.")
    session_id: str = Field(description="The session's id.")


Tag = Annotated[str, Field(strict=True, pattern=r"^[^\x00-\x1f]+$")]


class PreferenceBody(Body):
    """What the visitor wishes; what is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"verbosity": "detailed", "add_interest_tags": ["农耕"]}]}
    )

    verbosity: Literal["brief", "normal", "detailed"] | None = Field(
        default=None, description="`brief`, `normal` or `detailed`."
    )
    tone: Literal["casual", "formal", "respectful"] | None = Field(
        default=None, description="`casual`, `formal` or `respectful`."
    )
    language: StrictStr | None = Field(default=None, max_length=40, description="A BCP 47 tag, such as `zh`.")
    interest_tags: list[Tag] | None = Field(default=None, max_length=100, description="All tags, anew.")
    add_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to add.")
    remove_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to take away.")


class PreferenceAnswer(Shape):
    """What is stored now."""

    success: Literal[True] = Field(description="Always true.")
    preference: PreferenceShown = Field(description="How the visitor likes to be answered.")


class TraceShown(Shape):
    """Everything about one turn."""

    trace_id: str = Field(description="The trace's id.")
    session_id: str = Field(description="The session's id.")
    user_id: str = Field(description="The visitor.")
    npc_id: str = Field(description="The persona's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    request_input: dict[str, Any] = Field(
        description="The request: the question as it was asked and as it was rewritten for the search."
    )
    tool_calls: list[dict[str, Any]] = Field(description="The steps: name, status, duration_ms.")
    intent: str = Field(description="What the question was taken for, such as `fact_seeking`.")
    evidence_ids: list[str] = Field(description="The passages that were found, best first.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is too thin; `refuse` for a forbidden topic."
    )
    policy_reason: str = Field(description="Why the gate decided so.")
    blocks: list[dict[str, Any]] = Field(description="What the model was shown: kind, text, tokens.")
    answer: str = Field(description="The answer as it was stored.")
    model: str = Field(description="The model that answered; `offline` without one.")
    prompt_tokens: int = Field(description="Tokens that were sent to the model.")
    completion_tokens: int = Field(description="Tokens that the model wrote.")
    cost_usd: float = Field(description="Price of the model calls in US dollars, as far as it is stated.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    degraded: list[str] = Field(description="What failed or was left out, by name; empty if all went well.")
    started_at: datetime = Field(description="When the turn began.")
    completed_at: datetime = Field(description="When the answer was stored.")
    error: str | None = Field(description="Why there is no answer; null if there is one.")
    replay_of: str | None = Field(description="The trace whose blocks were sent again; null for a turn.")
    details: dict[str, Any] = Field(
        description="What else the steps noted, such as the rewriting, the scores and the title."
    )


class TraceWithSession(TraceShown):
    """A trace; with `include_session=true` also the session as it is now, null if it was deleted."""

    session_summary: SessionSummary | None = Field(
        default=None, description="The session as it is now; null without `include_session`, or if it was deleted."
    )


class TraceLine(Shape):
    """A trace in a list."""

    trace_id: str = Field(description="The trace's id.")
    session_id: str = Field(description="The session's id.")
    npc_id: str = Field(description="The persona's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    query: str = Field(description="The question.")
    intent: str = Field(description="What the question was taken for, such as `fact_seeking`.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is too thin; `refuse` for a forbidden topic."
    )
    policy_reason: str = Field(description="Why the gate decided so.")
    model: str = Field(description="The model that answered; `offline` without one.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    degraded: list[str] = Field(description="What failed or was left out, by name; empty if all went well.")
    started_at: datetime = Field(description="When the turn began.")
    error: str | None = Field(description="Why there is no answer; null if there is one.")
    replay_of: str | None = Field(description="The trace whose blocks were sent again; null for a turn.")


class TracePage(Shape):
    """Traces, newest first; `next` is null on the last page."""

    traces: list[TraceLine] = Field(description="The traces of this page.")
    next: str | None = Field(description="Where the next page begins; null on the last one.")


class ReplayShown(Shape):
    """A trace and what the same blocks give now, side by side."""

    original: TraceShown = Field(description="The trace that was replayed.")
    replayed: TraceShown = Field(description="What the same blocks give now.")
