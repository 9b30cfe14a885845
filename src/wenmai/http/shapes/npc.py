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

    evidence_id: str
    title: str
    source_ref: str
    excerpt: str
    score: float


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

    trace_id: str
    session_id: str
    turn_id: int
    policy_mode: PolicyModeName
    answer_text: str
    citations: list[CitationShown]
    followup_questions: list[str] = Field(max_length=3)
    npc_id: str
    npc_name: str
    latency_ms: float
    timestamp: datetime
    degraded: list[str] = Field(description="What did not work as it should, such as `model`.")


class RecentMessage(Shape):
    """A message, as a session's summary shows it."""

    turn_id: int
    npc_id: str
    role: Role
    content: str
    timestamp: datetime
    completed: bool


class SessionSummary(Shape):
    """A session, or one persona's part of it; without `npc_id` all personas' messages are merged by time."""

    session_id: str
    npc_id: str | None
    title: str
    message_count: int
    recent_messages: list[RecentMessage]
    first_message_at: datetime | None
    last_message_at: datetime | None
    preference: PreferenceShown


class Deleted(Shape):
    """What was deleted."""

    success: Literal[True]
    session_id: str


Tag = Annotated[str, Field(strict=True, pattern=r"^[^\x00-\x1f]+$")]


class PreferenceBody(Body):
    """What the visitor wishes; what is left out stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"verbosity": "detailed", "add_interest_tags": ["农耕"]}]}
    )

    verbosity: Literal["brief", "normal", "detailed"] | None = None
    tone: Literal["casual", "formal", "respectful"] | None = None
    language: StrictStr | None = Field(default=None, max_length=40, description="A BCP 47 tag, such as `zh`.")
    interest_tags: list[Tag] | None = Field(default=None, max_length=100, description="All tags, anew.")
    add_interest_tags: list[Tag] = Field(default=[], max_length=100)
    remove_interest_tags: list[Tag] = Field(default=[], max_length=100)


class PreferenceAnswer(Shape):
    """What is stored now."""

    success: Literal[True]
    preference: PreferenceShown


class TraceShown(Shape):
    """Everything about one turn."""

    trace_id: str
    session_id: str
    user_id: str
    npc_id: str
    turn_id: int
    request_input: dict[str, Any]
    tool_calls: list[dict[str, Any]] = Field(description="The steps: name, status, duration_ms.")
    intent: str
    evidence_ids: list[str]
    policy_mode: PolicyModeName
    policy_reason: str
    blocks: list[dict[str, Any]] = Field(description="What the model was shown: kind, text, tokens.")
    answer: str
    model: str
    prompt_tokens: int
    completion_tokens: int
    cost_usd: float
    latency_ms: float
    degraded: list[str]
    started_at: datetime
    completed_at: datetime
    error: str | None
    replay_of: str | None
    details: dict[str, Any]


class TraceWithSession(TraceShown):
    """A trace; with `include_session=true` also the session as it is now, null if it was deleted."""

    session_summary: SessionSummary | None = None


class TraceLine(Shape):
    """A trace in a list."""

    trace_id: str
    session_id: str
    npc_id: str
    turn_id: int
    query: str
    intent: str
    policy_mode: PolicyModeName
    policy_reason: str
    model: str
    latency_ms: float
    degraded: list[str]
    started_at: datetime
    error: str | None
    replay_of: str | None


class TracePage(Shape):
    """Traces, newest first; `next` is null on the last page."""

    traces: list[TraceLine]
    next: str | None


class ReplayShown(Shape):
    """A trace and what the same blocks give now, side by side."""

    original: TraceShown
    replayed: TraceShown
