"""Conversion of messages to rows and arrays, and back."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from wenmai.stores.postgresql.database import Row, unescape
from wenmai.stores.records import Message, NewMessage

COLUMNS = (
    "coalesce(m.given_id, 'msg-' || a.label || '-' || m.seq), m.seq, m.turn_id, m.role, m.content, m.timestamp, "
    "m.name, m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata"
)
"""Columns of a message ``m`` of the thread ``a``, for :func:`to_message`."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def batch_columns(messages: Sequence[NewMessage]) -> list[list[Any] | None]:
    """The messages as arrays, without their ids; None for an array of default values only."""
    return [
        [message.role for message in messages],
        [message.content for message in messages],
        none_if_all(None, [message.timestamp for message in messages]),
        none_if_all(None, [message.name for message in messages]),
        none_if_all(None, [None if m.tool_calls is None else to_json(m.tool_calls) for m in messages]),
        none_if_all(None, [message.tool_call_id for message in messages]),
        none_if_all(0, [message.tokens for message in messages]),
        none_if_all(True, [message.completed for message in messages]),
        none_if_all(None, [to_json(m.metadata) if m.metadata else None for m in messages]),
    ]


def none_if_all(default: object, values: list[Any]) -> list[Any] | None:
    """The values; None if all are the default."""
    return None if values.count(default) == len(values) else values


def new_message(persona_id: str, message: NewMessage, id_: str, seq: int, turn_id: int, now: datetime) -> Message:
    """The message as stored: with id and numbers of the store, and copies of the caller's mutable values."""
    return Message(
        id_,
        seq,
        turn_id,
        persona_id,
        message.role,
        message.content,
        now if message.timestamp is None else message.timestamp.astimezone(UTC),
        message.name,
        None if message.tool_calls is None else _decode(to_json(message.tool_calls)),
        message.tool_call_id,
        message.tokens,
        message.completed,
        _decode(to_json(message.metadata)) if message.metadata else {},
    )


def to_message(persona_id: str, row: Sequence[Any] | Row) -> Message:
    """The message of a row of :data:`COLUMNS`."""
    id_, seq, turn_id, role, content, timestamp, name, calls, call_id, tokens, completed, metadata = row
    return Message(
        unescape(id_),
        seq,
        turn_id,
        persona_id,
        role,
        unescape(content),
        timestamp,
        None if name is None else unescape(name),
        None if calls is None else _decode(unescape(calls)),
        None if call_id is None else unescape(call_id),
        tokens,
        completed,
        {} if metadata is None else _decode(unescape(metadata)),
    )


def to_json(value: Any) -> str:
    """JSON text."""
    return _encode(value).decode()
