"""Models of the chat with personas: turns, session summaries, preferences, traces."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, StrictBool, StrictStr

from wenmai.chat.turn import QUERY_LIMIT
from wenmai.http.schemas.common import Id, PreferenceView, RequestBody, ResponseModel
from wenmai.http.scope import SCOPE_NAME_PATTERN, ScopeHeaders
from wenmai.stores.records import Role

PolicyModeName = Literal["normal", "conservative", "refuse"]
ScopeName = Annotated[StrictStr, Field(pattern=SCOPE_NAME_PATTERN)]


def _stripped_query(query: str) -> str:
    query = query.strip()
    if not 1 <= len(query) <= QUERY_LIMIT or "\0" in query:
        raise ValueError(f"1 to {QUERY_LIMIT} characters, not counting surrounding whitespace")
    return query


Question = Annotated[
    StrictStr,
    Field(json_schema_extra={"pattern": r"^[^\x00]*\S[^\x00]*$", "minLength": 1, "maxLength": QUERY_LIMIT}),
    AfterValidator(_stripped_query),
]


class ChatBody(RequestBody):
    """A question to a persona."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "tenant_id": "default",
                    "site_id": "default",
                    "npc_id": "keeper",
                    "query": "灯塔是哪一年建的？",
                }
            ]
        }
    )

    tenant_id: ScopeName | None = Field(default=None, description="The tenant, if there is no `X-Tenant-ID`.")
    site_id: ScopeName | None = Field(default=None, description="The site, if there is no `X-Site-ID`.")
    user_id: ScopeName | None = Field(default=None, description="The user, if there is no `X-User-ID`.")
    npc_id: Id = Field(description="The persona to ask.")
    query: Question = Field(description="The question, 1 to 4000 characters.")
    session_id: Id | None = Field(default=None, description="The session to continue; default: a new session.")
    incognito: StrictBool = Field(default=False, description="Neither use nor change preferences.")
    stream: StrictBool = Field(
        default=False, description="Stream the answer as server-sent events, like `Accept: text/event-stream`."
    )
    on_conflict: Literal["wait", "reject"] = Field(
        default="wait", description="If another turn of the thread is running: wait for it, or answer 409."
    )

    def scope_fields(self) -> ScopeHeaders:
        """The scope given in the body."""
        return ScopeHeaders(self.tenant_id, self.site_id, self.user_id)


class CitationView(ResponseModel):
    """A passage that supports the answer; the excerpt has at most 100 characters."""

    evidence_id: str = Field(description="The passage's id.")
    title: str = Field(description="Its title.")
    source_ref: str = Field(description="The source, such as a book and page.")
    excerpt: str = Field(description="The part that supports the answer, at most 100 characters.")
    score: float = Field(description="The part of the question that it covers, 0 to 1.")


class ChatAnswer(ResponseModel):
    """The answer; it is stored before it is sent."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "trace_id": "trace-5f0c2f7a9b1e4d33",
                    "session_id": "session-8b6f0a1c2d3e4f50",
                    "turn_id": 1,
                    "policy_mode": "normal",
                    "answer_text": "日志里写着：灯塔建于1874年。",
                    "citations": [
                        {
                            "evidence_id": "ev-0f3a",
                            "title": "灯塔日志·卷一",
                            "source_ref": "log_book.md",
                            "excerpt": "灯塔建于1874年，用灰色花岗岩。",
                            "score": 0.82,
                        }
                    ],
                    "followup_questions": ["灯光能照多远？"],
                    "npc_id": "keeper",
                    "npc_name": "守塔人",
                    "latency_ms": 6.2,
                    "timestamp": "2026-01-05T14:00:00.120000Z",
                    "degraded": [],
                }
            ]
        }
    )

    trace_id: str = Field(description="The id of the turn's trace.")
    session_id: str = Field(description="The session's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."
    )
    answer_text: str = Field(description="The whole answer.")
    citations: list[CitationView] = Field(description="The passages that support the answer, best first.")
    followup_questions: list[str] = Field(max_length=3, description="Suggested follow-up questions.")
    npc_id: str = Field(description="The persona that answered.")
    npc_name: str = Field(description="The persona's name, in the language of the answer.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    timestamp: datetime = Field(description="Time at which the answer was stored.")
    degraded: list[str] = Field(description="Components that failed or were skipped, such as `model`; normally empty.")


class RecentMessage(ResponseModel):
    """A message in a session summary."""

    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    npc_id: str = Field(description="The persona of its thread.")
    role: Role = Field(description="The role of the author.")
    content: str = Field(description="The text.")
    timestamp: datetime = Field(description="Time of the message.")
    completed: bool = Field(description="False for an incomplete answer: in progress or cancelled.")


class SessionSummary(ResponseModel):
    """A session, or one persona's thread; without `npc_id` the messages of all threads are merged by time."""

    session_id: str = Field(description="The session's id.")
    npc_id: str | None = Field(description="The requested persona; null for all.")
    title: str = Field(description="The session's title.")
    message_count: int = Field(description="Number of messages.")
    recent_messages: list[RecentMessage] = Field(description="The newest messages, oldest first.")
    first_message_at: datetime | None = Field(description="Time of the first message; null if there is none.")
    last_message_at: datetime | None = Field(description="Time of the newest message; null if there is none.")
    preference: PreferenceView = Field(description="The user's preferences.")


class Deleted(ResponseModel):
    """The result of a deletion."""

    success: Literal[True] = Field(description="Always true.")
    session_id: str = Field(description="The session's id.")


Tag = Annotated[str, Field(strict=True, pattern=r"^[^\x00-\x1f]+$")]


class PreferenceBody(RequestBody):
    """A change of preferences; omitted fields are not changed."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"verbosity": "detailed", "add_interest_tags": ["航海"]}]}
    )

    verbosity: Literal["brief", "normal", "detailed"] | None = Field(
        default=None, description="`brief`, `normal` or `detailed`."
    )
    tone: Literal["casual", "formal", "respectful"] | None = Field(
        default=None, description="`casual`, `formal` or `respectful`."
    )
    language: StrictStr | None = Field(default=None, max_length=40, description="A BCP 47 tag, such as `zh`.")
    interest_tags: list[Tag] | None = Field(default=None, max_length=100, description="Replaces all tags.")
    add_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to add.")
    remove_interest_tags: list[Tag] = Field(default=[], max_length=100, description="Tags to remove.")


class PreferenceAnswer(ResponseModel):
    """The stored preferences."""

    success: Literal[True] = Field(description="Always true.")
    preference: PreferenceView = Field(description="The user's preferences.")


class TraceView(ResponseModel):
    """Everything about one turn."""

    trace_id: str = Field(description="The trace's id.")
    session_id: str = Field(description="The session's id.")
    user_id: str = Field(description="The user.")
    npc_id: str = Field(description="The persona's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    request_input: dict[str, Any] = Field(
        description="The request, with the query as asked and as rewritten for retrieval."
    )
    tool_calls: list[dict[str, Any]] = Field(description="The steps: name, status, duration_ms.")
    intent: str = Field(description="The recognized intent, such as `fact_seeking`.")
    evidence_ids: list[str] = Field(description="Ids of the passages found, best first.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."
    )
    policy_reason: str = Field(description="The reason for the policy mode.")
    blocks: list[dict[str, Any]] = Field(description="The blocks of the prompt: kind, text, tokens.")
    answer: str = Field(description="The stored answer.")
    model: str = Field(description="The model that answered; `offline` without one.")
    prompt_tokens: int = Field(description="Prompt tokens.")
    completion_tokens: int = Field(description="Completion tokens.")
    cost_usd: float = Field(description="Cost of the model calls in US dollars, for models with a configured price.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    degraded: list[str] = Field(description="Components that failed or were skipped; normally empty.")
    started_at: datetime = Field(description="Start of the turn.")
    completed_at: datetime = Field(description="Time at which the answer was stored.")
    error: str | None = Field(description="The error of a failed turn; null on success.")
    replay_of: str | None = Field(description="The id of the replayed trace; null for a turn.")
    details: dict[str, Any] = Field(
        description="Further details of the steps, such as query rewriting, scores and the title."
    )


class TraceWithSession(TraceView):
    """A trace; with `include_session=true` also the current session, null if it was deleted."""

    session_summary: SessionSummary | None = Field(
        default=None, description="The current session; null without `include_session`, or if it was deleted."
    )


class TraceSummary(ResponseModel):
    """A trace as listed."""

    trace_id: str = Field(description="The trace's id.")
    session_id: str = Field(description="The session's id.")
    npc_id: str = Field(description="The persona's id.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    query: str = Field(description="The question.")
    intent: str = Field(description="The recognized intent, such as `fact_seeking`.")
    policy_mode: PolicyModeName = Field(
        description="`normal`; `conservative` if the evidence is insufficient; `refuse` for a forbidden topic."
    )
    policy_reason: str = Field(description="The reason for the policy mode.")
    model: str = Field(description="The model that answered; `offline` without one.")
    latency_ms: float = Field(description="Milliseconds from the request to the answer.")
    degraded: list[str] = Field(description="Components that failed or were skipped; normally empty.")
    started_at: datetime = Field(description="Start of the turn.")
    error: str | None = Field(description="The error of a failed turn; null on success.")
    replay_of: str | None = Field(description="The id of the replayed trace; null for a turn.")


class TracePage(ResponseModel):
    """Traces, newest first; `next` is null on the last page."""

    traces: list[TraceSummary] = Field(description="The traces of this page.")
    next: str | None = Field(description="Cursor of the next page; null on the last page.")


class ReplayView(ResponseModel):
    """A trace and its replay."""

    original: TraceView = Field(description="The trace that was replayed.")
    replayed: TraceView = Field(description="The replay: the same blocks sent to the model again.")
