"""Shapes of the plain memory API."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, StrictStr

from wenmai.http.shapes.common import NO_NUL, Body, Closed, Count, Id, Moment, Shape
from wenmai.memory.sessions import checked_title
from wenmai.memory.transcript import CONTENT_LIMIT, NAME_LIMIT
from wenmai.stores.records import NewMessage, Role

MOST_MESSAGES = 1000
CONTEXT_QUERY_LIMIT = 100_000

Title = Annotated[
    StrictStr,
    Field(pattern=r"^[^\x00-\x1f]*$", json_schema_extra={"minLength": 1, "maxLength": 60}),
    AfterValidator(checked_title),
]


class SessionBody(Body):
    """A session to be created."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Planning the trip"}, {}]})

    session_id: Id | None = Field(default=None, description="Your own id; left out, one is made.")
    npc_id: Id | None = Field(default=None, description="Whose thread messages without `npc_id` go to.")
    title: Title | None = None
    metadata: dict[str, Any] = Field(default={}, description="Anything; given back as it is.")


class SessionRecord(Shape):
    """A session as it is stored."""

    session_id: str
    tenant_id: str
    site_id: str
    user_id: str
    npc_id: str = Field(description="Whose thread messages without `npc_id` go to.")
    title: str
    first_question: str
    created_at: datetime
    updated_at: datetime
    expires_at: datetime = Field(description="Slides with activity; past it, nothing can be appended.")
    context: dict[str, Any]
    metadata: dict[str, Any]
    total_tokens_used: int
    total_cost_usd: float


class ThreadShown(Shape):
    """One persona's thread."""

    npc_id: str
    message_count: int
    turn_count: int
    first_at: datetime
    last_at: datetime


class SessionDetail(SessionRecord):
    """A session with its threads, in the order in which they began."""

    threads: list[ThreadShown]


class SessionPage(Shape):
    """The user's sessions, newest first; `next` is null on the last page."""

    sessions: list[SessionRecord]
    next: str | None


class TitleBody(Body):
    """A new title."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Planning the trip"}]})

    title: Title


class MessageIn(Closed):
    """A message to be appended. A `user` message begins a turn, what answers it belongs to the turn."""

    role: Role
    content: StrictStr = Field(max_length=CONTENT_LIMIT, pattern=NO_NUL)
    name: StrictStr | None = Field(default=None, min_length=1, max_length=NAME_LIMIT, pattern=NO_NUL)
    id: Id | None = Field(default=None, description="Kept; an id that the thread has already changes nothing.")
    timestamp: Moment | None = None
    npc_id: Id | None = Field(default=None, description="Whose thread; left out, the session's persona's.")
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: StrictStr | None = Field(default=None, min_length=1, max_length=256, pattern=NO_NUL)
    metadata: dict[str, Any] = Field(default={})

    def message(self) -> NewMessage:
        """The message as the transcript takes it."""
        return NewMessage(
            role=self.role,
            content=self.content,
            id=self.id,
            timestamp=self.timestamp,
            name=self.name,
            tool_calls=self.tool_calls,
            tool_call_id=self.tool_call_id,
            metadata=self.metadata,
        )


class MessagesBody(Body):
    """Messages to be appended in this order."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "messages": [
                        {"role": "user", "content": "Where were we?"},
                        {"role": "assistant", "content": "At the second chapter."},
                    ]
                }
            ]
        }
    )

    messages: list[MessageIn] = Field(min_length=1, max_length=MOST_MESSAGES)


class MessageShown(Shape):
    """A message as it is stored; `seq` counts the messages of its thread, `turn_id` its turns."""

    id: str
    seq: int
    turn_id: int
    npc_id: str
    role: Role
    content: str
    timestamp: datetime
    name: str | None
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    tokens: int
    completed: bool
    metadata: dict[str, Any]


class Messages(Shape):
    """Messages as they are stored."""

    messages: list[MessageShown]


class MessagePage(Shape):
    """Messages, ascending; `next` is the `before` of the page before this one, null if there is none."""

    messages: list[MessageShown]
    next: str | None


class ContextBody(Body):
    """What your model is going to be asked."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Go on!", "budget_tokens": 2000}]})

    query: StrictStr = Field(min_length=1, max_length=CONTEXT_QUERY_LIMIT)
    budget_tokens: Count | None = Field(default=None, description="Of everything together; null for no limit.")
    npc_id: Id | None = Field(default=None, description="Whose thread; left out, the session's persona's.")


class BlockShown(Shape):
    """A block for the system prompt."""

    kind: str
    text: str
    tokens: int


class ContextAnswer(Shape):
    """What to tell your model: the blocks in its system prompt, then the messages."""

    blocks: list[BlockShown]
    messages: list[dict[str, Any]]
    tokens: int
    cut: dict[str, Any]
