"""Wenmai's JSON lines: one line per message, and a line of ``"type": "session"`` for a session's record.

Exports have this format; lines of other programs need session_id, role and content only.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Literal

import msgspec

from wenmai.errors import InvalidInput, bounded_repr
from wenmai.interchange.items import (
    BadValueError,
    Item,
    Json,
    MessageItem,
    SessionItem,
    Source,
    parse_timestamp,
    valid_id,
)
from wenmai.interchange.records import READERS
from wenmai.memory.chat_messages import EXTRA_FIELDS, to_message_fields
from wenmai.memory.sessions import began_at, checked_title
from wenmai.scope import ThreadKey
from wenmai.stores.records import Message, NewMessage, Role, Session
from wenmai.stores.structs import Stored


class MessageLine(msgspec.Struct, frozen=True, kw_only=True):
    """An exported message; ``turn_id`` and ``seq`` follow from the order and are ignored by imports."""

    type: Literal["message"] = "message"
    session_id: str
    persona_id: str = msgspec.field(name="npc_id")
    id: str
    turn_id: int
    seq: int
    role: Role
    name: str | None
    content: str
    timestamp: datetime
    tool_calls: list[dict[str, Any]] | None
    tool_call_id: str | None
    tokens: int
    completed: bool
    metadata: dict[str, Any]


class SessionLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exported session; missing fields have the defaults of a new session."""

    type: Literal["session"] = "session"
    session_id: str
    title: str | msgspec.UnsetType = msgspec.UNSET
    title_by: Literal["", "rule", "model", "user"] | msgspec.UnsetType = msgspec.UNSET
    first_question: str | msgspec.UnsetType = msgspec.UNSET
    created_at: datetime | msgspec.UnsetType = msgspec.UNSET
    expires_at: datetime | msgspec.UnsetType = msgspec.UNSET
    lifetime_seconds: int | msgspec.UnsetType = msgspec.UNSET
    context: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    metadata: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    total_tokens_used: int | msgspec.UnsetType = msgspec.UNSET
    total_cost_usd: float | msgspec.UnsetType = msgspec.UNSET


_DERIVED = frozenset({"type", "session_id", "npc_id", "turn_id", "seq"})
_GIVEN = frozenset(NewMessage.__struct_fields__)


def message_line(session_id: str, message: Message) -> bytes:
    """The line of a message, including the line break."""
    fields = msgspec.structs.asdict(message)
    return msgspec.json.encode(MessageLine(session_id=session_id, **fields)) + b"\n"


def session_line(stored: Stored[Session]) -> bytes:
    """The line of a session's record, including the line break."""
    fields = msgspec.structs.asdict(stored.record) | {"created_at": began_at(stored)}
    del fields["began_at"], fields["incarnation"], fields["sealed"]  # specific to this store
    return msgspec.json.encode(SessionLine(**fields)) + b"\n"


def is_line(value: Json) -> bool:
    """Whether the object is a line of this format."""
    return "session_id" in value or value.get("type") in ("session", "message", *READERS)


def read_line(source: Source, value: Json, line: int) -> Iterator[Item]:
    """The message or the session of a line."""
    if value.get("type") == "session":
        yield _session(value, line)
        return
    if (read := READERS.get(str(value.get("type")))) is not None:
        yield read(value, line)
        return
    if value.get("type", "message") != "message":
        named = ", ".join(["session", "message", *READERS])
        raise BadValueError(f"type: {bounded_repr(value['type'])} is not one of {named}")
    if "session_id" not in value:
        raise BadValueError("session_id is missing")
    thread = ThreadKey(
        valid_id("session_id", value["session_id"]),
        valid_id("npc_id", value.get("npc_id") or source.persona_id),
    )
    given = {field: value[field] for field in value if field in _GIVEN}
    extra = {field: value[field] for field in value if field in EXTRA_FIELDS}
    unknown = {field: value[field] for field in value if field not in _GIVEN | _DERIVED | extra.keys()}
    if unknown:
        given["metadata"] = {**unknown, **(given.get("metadata") or {})}
    message = new_message(to_message_fields(given, extra))
    yield MessageItem(thread, source.with_id(thread, message), line)


def new_message(given: Mapping[str, Any]) -> NewMessage:
    """A message of these fields.

    Raises:
        BadValueError: a field is missing or not allowed; the error names it.
    """
    fields = {field: value for field, value in given.items() if value is not None}
    for field in ("role", "content"):
        if field not in fields:
            raise BadValueError(f"{field} is missing")
    if "timestamp" in fields:
        fields["timestamp"] = parse_timestamp("timestamp", fields["timestamp"])
    if "id" in fields:
        valid_id("id", fields["id"])
    try:
        return msgspec.convert(fields, NewMessage)
    except msgspec.ValidationError as problem:
        raise BadValueError(_with_field(problem)) from problem


def _session(value: Json, line: int) -> SessionItem:
    try:
        parsed = msgspec.convert(value, SessionLine)
    except msgspec.ValidationError as problem:
        raise BadValueError(_with_field(problem)) from problem
    valid_id("session_id", parsed.session_id)
    fields = {
        field: given
        for field, given in msgspec.structs.asdict(parsed).items()
        if field not in ("type", "session_id") and given is not msgspec.UNSET
    }
    if "expires_at" in fields:
        fields["expires_at"] = parse_timestamp("expires_at", value["expires_at"])
    if fields.pop("created_at", None) is not None:
        fields["began_at"] = parse_timestamp("created_at", value["created_at"])
    if fields.get("lifetime_seconds", 1) < 1:
        raise BadValueError("lifetime_seconds: less than 1")
    try:
        if fields.get("title"):
            fields["title"] = checked_title(fields["title"])
    except InvalidInput as problem:
        raise BadValueError(str(problem)) from problem
    return SessionItem(parsed.session_id, fields, line)


def _with_field(problem: msgspec.ValidationError) -> str:
    """The message of msgspec, with the field first."""
    reason, _, path = str(problem).partition(" - at `$.")
    return f"{path.rstrip('`')}: {reason}" if path else reason
