"""How a message stands in its list: JSON that other programs may read, made of a head and a rest.

The head, ``{"role":…,"turn_id":…,"seq":…,"id":…``, is put together where the numbers are given, in the append's script; the
rest is encoded here. Fields that have their default are left out.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from wenmai.errors import InvalidInput
from wenmai.stores.records import Message, NewMessage

_encoder = msgspec.json.Encoder()
_decode = msgspec.json.Decoder(Message).decode


class _Rest(msgspec.Struct, omit_defaults=True, frozen=True):
    """What follows the head, in this order."""

    content: str
    timestamp: datetime
    npc_id: str
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}


def arguments_of(message: NewMessage, npc_id: str, now: datetime) -> tuple[str | bytes, ...]:
    """The six words by which the append's script knows a message: see :data:`log_scripts.APPEND`.

    Raises:
        InvalidInput: its moment has no time zone.
        TypeError: a part of it is not JSON.
    """
    moment = message.timestamp or now
    if moment.tzinfo is None:
        raise InvalidInput("messages.timestamp", moment, "a moment with a time zone")
    moment = moment.astimezone(UTC)
    given = message.id or ""
    quoted = _encoder.encode(given) if given else b""
    return (
        message.role,
        given,
        quoted,
        "1" if message.completed else "0",
        moment.isoformat(),
        _rest_of(message, npc_id, moment),
    )


def encode(message: Message) -> bytes:
    """The message as the script would have put it together."""
    head = f'{{"role":"{message.role}","turn_id":{message.turn_id},"seq":{message.seq},"id":'
    return head.encode() + _encoder.encode(message.id) + _rest_of(message, message.npc_id, message.timestamp)


def decode(raw: bytes) -> Message:
    """The message of a list's element."""
    return _decode(raw)


def _rest_of(message: Message | NewMessage, npc_id: str, moment: datetime) -> bytes:
    rest = _Rest(
        content=message.content,
        timestamp=moment,
        npc_id=npc_id,
        name=message.name,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        tokens=message.tokens,
        completed=message.completed,
        metadata=message.metadata,
    )
    return b"," + _encoder.encode(rest)[1:]
