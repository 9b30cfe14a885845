"""Messages of a thread, as appended and as stored."""

from datetime import datetime
from typing import Any, ClassVar, Literal

import msgspec

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

    private: ClassVar = ("content", "name", "tool_calls", "metadata")

    id: str
    seq: int
    turn_id: int
    npc_id: str
    role: Role
    content: str
    timestamp: datetime
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}


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
