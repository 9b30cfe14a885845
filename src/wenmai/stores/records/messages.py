"""Messages of a thread, as appended and as stored."""

from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

import msgspec
from msgspec import Meta

Role = Literal["user", "assistant", "system", "tool"]


class Message(msgspec.Struct, frozen=True):
    """One entry of a thread's log.

    Attributes:
        private: as in :class:`~wenmai.stores.records.base.RecordSpec`.
        seq: 1, 2, 3 … in the order of arrival in its thread, without gaps.
        turn_id: 1, 2, 3 … in its thread; a user message begins a turn, the replies to it belong to the same turn.
        tokens: counted or estimated when the message was written.
        completed: False while the answer is being generated, and permanently if it was abandoned.
    """

    private: ClassVar[tuple[str, ...]] = ("content", "name", "tool_calls", "metadata")

    id: Annotated[str, Meta(description="The message's id, yours or generated.")]
    seq: Annotated[int, Meta(description="The message's number in its thread, from 1.")]
    turn_id: Annotated[int, Meta(description="The turn's number in its thread, from 1.")]
    persona_id: Annotated[str, Meta(description="The persona of its thread.")] = msgspec.field(name="npc_id")
    role: Annotated[Role, Meta(description="The role of the author.")]
    content: Annotated[str, Meta(description="The text.")]
    timestamp: Annotated[datetime, Meta(description="Time of the message.")]
    name: Annotated[str | None, Meta(description="The speaker, if there are several.")] = None
    tool_calls: Annotated[list[dict[str, Any]] | None, Meta(description="Tool calls requested by the message.")] = None
    tool_call_id: Annotated[str | None, Meta(description="The tool call that this message answers.")] = None
    tokens: Annotated[int, Meta(description="Estimated tokens.")] = 0
    completed: Annotated[bool, Meta(description="False for an incomplete answer: in progress or cancelled.")] = True
    metadata: Annotated[dict[str, Any], Meta(description="Your own data; private values in it are replaced.")] = {}


class NewMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to append; the log assigns its number, and an id and a timestamp if it has none."""

    role: Role
    content: str
    id: str | None = None
    timestamp: datetime | None = None
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}
