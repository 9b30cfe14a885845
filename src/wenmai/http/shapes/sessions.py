"""Shapes of the plain memory API."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictStr, WithJsonSchema

from wenmai.http.shapes.common import NO_NUL, Body, Closed, Count, Id, Moment, Shape
from wenmai.memory.sessions import checked_title
from wenmai.memory.transcript import CONTENT_LIMIT, NAME_LIMIT
from wenmai.stores.records import Role

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
    title: Title | None = Field(
        default=None, description="A title of your own; left out, one is made from the first question."
    )
    metadata: dict[str, Any] = Field(default={}, description="Anything; given back as it is.")


class SessionRecord(Shape):
    """A session as it is stored."""

    session_id: str = Field(description="The session's id.")
    tenant_id: str = Field(description="The tenant.")
    site_id: str = Field(description="The tenant's site.")
    user_id: str = Field(description="The visitor.")
    npc_id: str = Field(description="Whose thread messages without `npc_id` go to.")
    title: str = Field(description="Yours, else one made from the first question.")
    first_question: str = Field(description="The first question, from which the title is made.")
    created_at: datetime = Field(description="When it was stored first.")
    updated_at: datetime = Field(description="When it was changed last.")
    expires_at: datetime = Field(description="Slides with activity; past it, nothing can be appended.")
    context: dict[str, Any] = Field(description="Variables of the session, such as `npc_id`.")
    metadata: dict[str, Any] = Field(description="Your own data; given back as it is.")
    total_tokens_used: int = Field(description="Tokens of all model calls so far.")
    total_cost_usd: float = Field(description="Price of all model calls in US dollars, as far as it is stated.")


class ThreadShown(Shape):
    """One persona's thread."""

    npc_id: str = Field(description="The persona's id.")
    message_count: int = Field(description="How many messages there are.")
    turn_count: int = Field(description="How many turns there are.")
    first_at: datetime = Field(description="When the first message was said.")
    last_at: datetime = Field(description="When the newest message was said.")


class SessionDetail(SessionRecord):
    """A session with its threads, in the order in which they began."""

    threads: list[ThreadShown] = Field(description="A thread for each persona, in the order in which they began.")


class SessionPage(Shape):
    """The user's sessions, newest first; `next` is null on the last page."""

    sessions: list[SessionRecord] = Field(description="The sessions of this page.")
    next: str | None = Field(description="Where the next page begins; null on the last one.")


class TitleBody(Body):
    """A new title."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"title": "Planning the trip"}]})

    title: Title = Field(description="1 to 60 characters on one line.")


_KEPT = "Kept in the metadata."


def _content(value: object) -> object:
    """Checked no further: the transcript does it, for all who append."""
    parts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(part, str) or (isinstance(part, dict) and value is not part) for part in parts):
        raise ValueError("text, a list of parts (text or objects), or null")
    return value


Content = Annotated[
    Any,
    BeforeValidator(_content),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": CONTENT_LIMIT, "pattern": NO_NUL},
                {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": NO_NUL}, {"type": "object"}]}},
                {"type": "null"},
            ]
        }
    ),
]


class MessageIn(Closed):
    """A message to be appended. A `user` message begins a turn, what answers it belongs to the turn."""

    role: Literal["user", "assistant", "system", "tool", "developer", "function"] = Field(
        description="`developer` is kept as `system`, `function` as `tool`."
    )
    content: Content = Field(default=None, description="Null, or left out, only beside tool calls or a refusal.")
    name: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_LIMIT,
        pattern=NO_NUL,
        description="The speaker, where there are several.",
    )
    id: Id | None = Field(default=None, description="Kept; an id that the thread has already changes nothing.")
    timestamp: Moment | None = Field(default=None, description="When it was said, with its time zone; now if left out.")
    npc_id: Id | None = Field(default=None, description="Whose thread; left out, the session's persona's.")
    tool_calls: list[dict[str, Any]] | None = Field(
        default=None, fail_fast=True, description="The calls of tools that the message asks for."
    )
    tool_call_id: StrictStr | None = Field(
        default=None, min_length=1, max_length=256, pattern=NO_NUL, description="The call that this message answers."
    )
    metadata: dict[str, Any] = Field(default={}, description="Your own data; given back as it is.")
    refusal: StrictStr | None = Field(
        default=None, max_length=CONTENT_LIMIT, pattern=NO_NUL, description="The content, where that is null."
    )
    reasoning_content: StrictStr | None = Field(default=None, max_length=CONTENT_LIMIT, description=_KEPT)
    annotations: list[Any] | None = Field(default=None, description=_KEPT)
    audio: dict[str, Any] | None = Field(default=None, description=_KEPT)
    function_call: dict[str, Any] | None = Field(default=None, description=_KEPT)

    def given(self) -> dict[str, Any]:
        """The fields that the request names, as the transcript takes them."""
        return self.model_dump(exclude_unset=True, exclude={"npc_id"})


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

    messages: list[MessageIn] = Field(
        min_length=1, max_length=MOST_MESSAGES, fail_fast=True, description="The messages, in their order."
    )


class MessageShown(Shape):
    """A message as it is stored; `seq` counts the messages of its thread, `turn_id` its turns."""

    id: str = Field(description="The message's id, yours or one that was made.")
    seq: int = Field(description="Its number in the thread, from 1.")
    turn_id: int = Field(description="The turn's number in its thread, from 1.")
    npc_id: str = Field(description="The persona whose thread it is in.")
    role: Role = Field(description="Who says it.")
    content: str = Field(description="The wording.")
    timestamp: datetime = Field(description="When it was said.")
    name: str | None = Field(description="The speaker, where there are several.")
    tool_calls: list[dict[str, Any]] | None = Field(description="The calls of tools that the message asks for.")
    tool_call_id: str | None = Field(description="The call that this message answers.")
    tokens: int = Field(description="Estimated tokens.")
    completed: bool = Field(description="False for an answer that is not whole: still being made, or given up.")
    metadata: dict[str, Any] = Field(description="Your own data; given back as it is.")


class Messages(Shape):
    """Messages as they are stored."""

    messages: list[MessageShown] = Field(description="The messages, in the order given.")


class MessagePage(Shape):
    """Messages, ascending; `next` is the `before` of the page before this one, null if there is none."""

    messages: list[MessageShown] = Field(description="The messages of this page, ascending.")
    next: str | None = Field(
        description="What to give as `before` for the page before this one; null if there is none."
    )


class ContextBody(Body):
    """What your model is going to be asked."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"query": "Go on!", "budget_tokens": 2000}]})

    query: StrictStr = Field(
        min_length=1, max_length=CONTEXT_QUERY_LIMIT, description="What your model is going to be asked."
    )
    budget_tokens: Count | None = Field(default=None, description="Of everything together; null for no limit.")
    npc_id: Id | None = Field(default=None, description="Whose thread; left out, the session's persona's.")


class BlockShown(Shape):
    """A block for the system prompt."""

    kind: str = Field(description="What the block is about, such as `preferences`.")
    text: str = Field(description="The wording.")
    tokens: int = Field(description="Estimated tokens.")


class ContextAnswer(Shape):
    """What to tell your model: the blocks in its system prompt, then the messages."""

    blocks: list[BlockShown] = Field(description="What goes into the system prompt.")
    messages: list[dict[str, Any]] = Field(description="What was said before, and the question as the last one.")
    tokens: int = Field(description="Estimated tokens of everything together.")
    cut: dict[str, Any] = Field(description="What was left out to keep to the limits.")
