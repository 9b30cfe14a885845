"""A message as a row of the table, and back; its own id is made of its thread's label and its number."""

from typing import Any

import msgspec

from wenmai.clock import from_micros, to_micros
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.sqlite.recent import ThreadRow

COLUMNS = (
    "seq, turn_id, role, content, timestamp, tokens, completed, given_id, name, tool_calls, tool_call_id, metadata"
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


def own_id(label: str, seq: object) -> str:
    """The id of a message that came without one."""
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
    """JSON text, None for what is empty."""
    return _encode(value).decode() if value else None


def to_message(thread: ThreadRow, row: tuple[Any, ...]) -> Message:
    """The message of a row of :data:`COLUMNS`."""
    seq, turn, role, content, moment, tokens, completed, given, name, calls, call_id, metadata = row
    return Message(
        given if given is not None else own_id(thread.label, seq),
        seq,
        turn,
        thread.npc_id,
        role,
        content,
        from_micros(moment),
        name,
        None if calls is None else _decode(calls),
        call_id,
        tokens,
        bool(completed),
        {} if metadata is None else _decode(metadata),
    )
