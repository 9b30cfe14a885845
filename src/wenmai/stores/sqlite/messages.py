"""Conversion between messages and rows; a generated id consists of the thread's label and the message's number."""

from typing import Any

import msgspec

from wenmai.clock import from_micros, to_micros
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.sqlite.write_cache import ThreadRow

COLUMNS = (
    "seq, turn_id, role, content, timestamp, tokens, completed, given_id, name, tool_calls, tool_call_id, metadata"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def generated_id(label: str, seq: object) -> str:
    """The id of a message that was appended without one."""
    return f"msg-{label}-{seq}"


def to_row(message: NewMessage, seq: int, turn: int, now: int) -> tuple[Any, ...]:
    """The values of :data:`COLUMNS`; ``now`` is in microseconds."""
    return (
        seq,
        turn,
        message.role,
        message.content,
        now if message.timestamp is None else to_micros(message.timestamp),
        message.tokens,
        int(message.completed),
        message.id,
        message.name,
        to_json(message.tool_calls),
        message.tool_call_id,
        to_json(message.metadata),
    )


def to_json(value: Any) -> str | None:
    """JSON text; None for an empty value."""
    return _encode(value).decode() if value else None


def to_message(thread: ThreadRow, row: tuple[Any, ...]) -> Message:
    """The message of a row of :data:`COLUMNS`."""
    seq, turn, role, content, timestamp, tokens, completed, given, name, calls, call_id, metadata = row
    return Message(
        given if given is not None else generated_id(thread.label, seq),
        seq,
        turn,
        thread.persona_id,
        role,
        content,
        from_micros(timestamp),
        name,
        None if calls is None else _decode(calls),
        call_id,
        tokens,
        bool(completed),
        {} if metadata is None else _decode(metadata),
    )
