"""Records and messages with their private fields encrypted, and back."""

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec.structs import replace

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.encryption.ciphers import DataKey, about, is_sealed, key_id_of
from wenmai.stores.records import Message, NewMessage, Record

R = TypeVar("R", bound=Record)

LARGE = 200_000
"""Characters from which on values are encrypted in a worker thread; all of it takes about a millisecond."""

_SEALED_MEMBER = "sealed"
"""The member of an object whose others are encrypted."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_pack = msgspec.msgpack.Encoder().encode


def size_of(value: Any) -> int:
    """About how long a valid value is as a text."""
    return len(_pack(value))


def has_private_values(record: Record) -> bool:
    """Whether there is anything to encrypt. A session always names its user's key."""
    if record.spec.identity:
        return bool(record.spec.private)
    empty = _fields(type(record))()
    return any(getattr(record, name) != getattr(empty, name) for name in record.spec.private)


def seal_record(key: DataKey, scope: Scope, record: R) -> R:
    """The record with its private fields empty, and encrypted together in ``sealed``.

    Raises:
        UnicodeEncodeError, RecursionError, TypeError, …: a value has no form in JSON.
    """
    plain = _encode({name: getattr(record, name) for name in record.spec.private})
    sealed = key.seal(plain, _place(scope, record))
    return with_private(record, _fields(type(record))(), sealed)


def open_record(keys: Mapping[str, DataKey], scope: Scope, record: R) -> R:
    """The inverse of :func:`seal_record`; one that is not encrypted is returned as it is.

    Raises:
        Undecipherable: it was changed, or is of another place.
    """
    sealed: str = getattr(record, "sealed", "")
    if not sealed:
        return record
    plain = keys[key_id_of(sealed)].open(sealed, _place(scope, record))
    return with_private(record, _decoder(type(record)).decode(plain))


def seal_message(key: DataKey, scope: Scope, thread: ThreadKey, message: NewMessage) -> NewMessage:
    """The message, which has an id, with its private fields encrypted."""
    place = _Place(scope, thread, message.id or "")
    return replace(
        message,
        content=seal_text(key, message.content, place("content")),
        name=None if message.name is None else seal_text(key, message.name, place("name")),
        tool_calls=message.tool_calls and [_seal_value(key, message.tool_calls, place("tool_calls"))],
        metadata=seal_metadata(key, message.metadata, place("metadata")),
    )


def open_message(
    keys: Mapping[str, DataKey], scope: Scope, thread: ThreadKey, message: Message, sealed: Mapping[str, str]
) -> Message:
    """The message with its private fields decrypted; those that are not encrypted stay as they are.

    Args:
        keys: of the user, by their ids.
        scope: the user.
        thread: of the message.
        message: as it is stored.
        sealed: its :func:`sealed_fields`.

    Raises:
        Undecipherable: one was changed, or is of another place.
    """
    if not sealed:
        return message
    place = _Place(scope, thread, message.id)
    plain = {name: keys[key_id_of(text)].open(text, place(name)) for name, text in sealed.items()}
    opened = {name: each.decode() if name in ("content", "name") else _decode(each) for name, each in plain.items()}
    return replace(message, **opened)


def completion_looks_sealed(content: str, metadata: Mapping[str, Any] | None) -> bool:
    """Whether a reader would take content or metadata for encrypted ones."""
    return is_sealed(content) or bool(metadata and _sealed_in(metadata))


def seal_completion(
    key: DataKey, scope: Scope, thread: ThreadKey, message: Message, content: str, metadata: Mapping[str, Any] | None
) -> tuple[str, Mapping[str, Any] | None]:
    """Content and metadata with which a message is completed, encrypted."""
    place = _Place(scope, thread, message.id)
    data = None if metadata is None else seal_metadata(key, metadata, place("metadata"))
    return seal_text(key, content, place("content")), data


def seal_text(key: DataKey, text: str, place: bytes) -> str:
    """The text encrypted; an empty one stays empty."""
    return key.seal(text.encode(), place) if text else text


def seal_metadata(key: DataKey, metadata: Mapping[str, Any], place: bytes) -> dict[str, Any]:
    """The object encrypted; an empty one stays empty."""
    return _seal_value(key, metadata, place) if metadata else {}


def _seal_value(key: DataKey, value: Any, place: bytes) -> dict[str, Any]:
    return {_SEALED_MEMBER: key.seal(_encode(value), place)}


def sealed_fields(message: Message | NewMessage) -> dict[str, str]:
    """The ciphertext of each field that is encrypted, by its name."""
    found = {"content": message.content} if is_sealed(message.content) else {}
    if message.name is not None and is_sealed(message.name):
        found["name"] = message.name
    if message.metadata and (sealed := _sealed_in(message.metadata)):
        found["metadata"] = sealed
    if message.tool_calls and (sealed := _sealed_in(message.tool_calls[0])):
        found["tool_calls"] = sealed
    return found


def _sealed_in(value: Mapping[str, Any]) -> str:
    sealed = value.get(_SEALED_MEMBER) if len(value) == 1 else None
    return sealed if isinstance(sealed, str) and is_sealed(sealed) else ""


def _place(scope: Scope, record: Record) -> bytes:
    return about(scope, record.spec.collection, record.key)


class _Place(NamedTuple):
    """A message; called with the name of a field, the associated data of its ciphertext."""

    scope: Scope
    thread: ThreadKey
    message_id: str

    def __call__(self, field: str) -> bytes:
        return about(self.scope, "messages", self.thread.session_id, self.thread.persona_id, self.message_id, field)


def with_private(record: R, fields: msgspec.Struct, sealed: str = "") -> R:
    """The record with the private fields of another struct."""
    return replace(record, **{name: getattr(fields, name) for name in record.spec.private}, sealed=sealed)


@cache
def _fields(of: type[Record]) -> type[msgspec.Struct]:
    """A struct of the private fields of a record type, all with a default: a text without one is empty."""
    hints = get_type_hints(of, include_extras=True)
    declared = {field.name: field for field in msgspec.structs.fields(of)}
    fields = []
    for name in of.spec.private:
        field = declared[name]
        if field.default_factory is not msgspec.NODEFAULT:
            default = msgspec.field(default_factory=field.default_factory)
        else:
            default = msgspec.field(default="" if field.default is msgspec.NODEFAULT else field.default)
        fields.append((name, hints[name], default))
    return msgspec.defstruct(f"{of.__name__}Private", fields)


@cache
def _decoder(of: type[Record]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_fields(of))
