"""The format of a message in its list: JSON that other programs may read, made of a head and a rest.

The head, ``{"role":…,"turn_id":…,"seq":…,"id":…``, is built in the append's script, where the numbers are assigned; the
rest is encoded here. Fields with their default value are omitted.
"""

from datetime import UTC, datetime
from typing import Any

import msgspec

from wenmai.stores.records import Message, NewMessage

_encoder = msgspec.json.Encoder()
_pack = msgspec.msgpack.Encoder().encode
_decode_message = msgspec.json.Decoder(Message).decode
_decode_appended = msgspec.json.Decoder(tuple[int, list[Message], list[Message], int, str]).decode
_decode_messages = msgspec.json.Decoder(list[Message]).decode
_decode_raws = msgspec.json.Decoder(list[msgspec.Raw]).decode


class _Rest(msgspec.Struct, omit_defaults=True, frozen=True):
    """The fields after the head, in this order."""

    content: str
    timestamp: datetime
    persona_id: str = msgspec.field(name="npc_id")
    name: str | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None
    tokens: int = 0
    completed: bool = True
    metadata: dict[str, Any] = {}


class Request(msgspec.Struct, array_like=True, frozen=True):
    """The argument of the append's script, in the order in which it is unpacked."""

    user_id: str
    now: int
    incarnation: str
    updated_at: str
    slide: bool
    slide_step: int
    kept: int
    grace: int
    tail: int
    persona_id: str
    label: str
    messages: list[tuple[str, str, str, bool, str, str]]

    def pack(self) -> bytes:
        """As MessagePack."""
        return _pack(self)


def words_of(message: NewMessage, persona_id: str, now: datetime) -> tuple[str, str, str, bool, str, str]:
    """A message of a :class:`Request`: role, id, the id as JSON, whether it is completed, its moment, the rest."""
    moment = (message.timestamp or now).astimezone(UTC)
    given = message.id or ""
    quoted = _json(given) if given else ""
    return message.role, given, quoted, message.completed, moment.isoformat(), _rest_of(message, persona_id, moment)


def encode(message: Message) -> bytes:
    """The message as the script builds it."""
    head = f'{{"role":"{message.role}","turn_id":{message.turn_id},"seq":{message.seq},"id":'
    return f"{head}{_json(message.id)}{_rest_of(message, message.persona_id, message.timestamp)}".encode()


def decode(raw: bytes) -> Message:
    """One message."""
    return _decode_message(raw)


def decode_all(answer: bytes) -> list[Message]:
    """The messages of a script's answer."""
    return _decode_messages(answer)


def split(answer: bytes) -> list[bytes]:
    """The messages of a script's answer as they are stored, byte for byte."""
    return [bytes(raw) for raw in _decode_raws(answer)]


def decode_appended(answer: bytes) -> tuple[int, list[Message], list[Message], int, str]:
    """How many messages were new, all that were given, the tail, 1 if expiries are to be extended, the incarnation."""
    return _decode_appended(answer)


def _rest_of(message: Message | NewMessage, persona_id: str, moment: datetime) -> str:
    rest = _Rest(
        content=message.content,
        timestamp=moment,
        persona_id=persona_id,
        name=message.name,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        tokens=message.tokens,
        completed=message.completed,
        metadata=message.metadata,
    )
    return f",{_json(rest)[1:]}"


def _json(value: Any) -> str:
    return _encoder.encode(value).decode()
