"""Models of the plain memory API."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, StrictBool, StrictStr, WithJsonSchema

from wenmai.http.schemas.common import NO_NUL, Count, Id, RequestBody, StrictModel, Timestamp
from wenmai.memory.sessions import checked_title
from wenmai.memory.transcript import CONTENT_LIMIT, NAME_LIMIT

MAX_MESSAGES = 1000
CONTEXT_QUERY_LIMIT = 100_000

Title = Annotated[
    StrictStr,
    Field(pattern=r"^[^\x00-\x1f]*$", json_schema_extra={"minLength": 1, "maxLength": 60}),
    AfterValidator(checked_title),
]


class SessionBody(RequestBody):
    """A session to create."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"title": "Planning the trip"}, {}]}
    )

    session_id: Id | None = Field(default=None, description="Your own id; generated if omitted.")
    persona_id: Id | None = Field(alias="npc_id", default=None, description="The persona of messages without `npc_id`.")
    title: Title | None = Field(default=None, description="Your own title; default: derived from the first question.")
    metadata: dict[str, Any] = Field(default={}, description="Your own data; private values in it are replaced.")


class TitleBody(RequestBody):
    """A new title."""

    model_config: ClassVar[ConfigDict] = ConfigDict(json_schema_extra={"examples": [{"title": "Planning the trip"}]})

    title: Title = Field(description="1 to 60 characters on one line.")


_KEPT = "Stored in the metadata."


def _content(value: object) -> object:
    """Check the type only: the transcript validates the rest for all callers."""
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


class MessageIn(StrictModel):
    """A message to append. A `user` message begins a turn; the messages that answer it belong to that turn."""

    role: Literal["user", "assistant", "system", "tool", "developer", "function"] = Field(
        description="`developer` is stored as `system`, `function` as `tool`."
    )
    content: Content = Field(default=None, description="May be null or omitted only with tool calls or a refusal.")
    name: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=NAME_LIMIT,
        pattern=NO_NUL,
        description="The speaker, if there are several.",
    )
    id: Id | None = Field(
        default=None, description="Your own id; a message with an id that exists in the thread is not stored again."
    )
    timestamp: Timestamp | None = Field(
        default=None, description="Time of the message, with a time zone; default: now."
    )
    persona_id: Id | None = Field(
        alias="npc_id", default=None, description="The persona; default: the session's persona."
    )
    tool_calls: list[dict[str, Any]] | None = Field(
        default=None, fail_fast=True, description="Tool calls requested by the message."
    )
    tool_call_id: StrictStr | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        pattern=NO_NUL,
        description="The tool call that this message answers.",
    )
    metadata: dict[str, Any] = Field(default={}, description="Your own data; private values in it are replaced.")
    refusal: StrictStr | None = Field(
        default=None, max_length=CONTENT_LIMIT, pattern=NO_NUL, description="Used as the content if that is null."
    )
    reasoning_content: StrictStr | None = Field(default=None, max_length=CONTENT_LIMIT, description=_KEPT)
    annotations: list[Any] | None = Field(default=None, description=_KEPT)
    audio: dict[str, Any] | None = Field(default=None, description=_KEPT)
    function_call: dict[str, Any] | None = Field(default=None, description=_KEPT)

    def provided_fields(self) -> dict[str, Any]:
        """The fields present in the request, in the transcript's format."""
        return self.model_dump(exclude_unset=True, exclude={"persona_id"})


class MessagesBody(RequestBody):
    """Messages to append, in order."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
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
        min_length=1, max_length=MAX_MESSAGES, fail_fast=True, description="The messages, in order."
    )


class ContextBody(RequestBody):
    """The question for your model."""

    model_config: ClassVar[ConfigDict] = ConfigDict(
        json_schema_extra={"examples": [{"query": "Go on!", "budget_tokens": 2000}]}
    )

    query: StrictStr = Field(min_length=1, max_length=CONTEXT_QUERY_LIMIT, description="The question for your model.")
    budget_tokens: Count | None = Field(
        default=None, description="Token budget of blocks and messages together; null for no limit."
    )
    related_turns: StrictBool = Field(
        default=True,
        description="With excerpts of related earlier turns of the user with this persona, of any session.",
    )
    persona_id: Id | None = Field(
        alias="npc_id", default=None, description="The persona; default: the session's persona."
    )
