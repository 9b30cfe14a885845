"""Validation of values, so that every backend accepts and refuses the same ones.

It runs before the work is queued: a value that a database refuses would otherwise fail a transaction shared with other
callers. The bounds are stated in :mod:`wenmai.stores.contracts`.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple, get_args, get_type_hints

import msgspec

from wenmai.errors import InvalidInput
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import NewMessage, Record, Role
from wenmai.stores.structs import ThreadPart
from wenmai.stores.validation import TEXT, check_key, check_range, check_text, is_text

EARLIEST = datetime(2, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""The range of timestamps that every backend stores with microseconds."""

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**63 - 1
MAX_DEPTH = 500
"""Levels of lists and objects in a JSON value; the decoders' limit is a thousand, less the caller's own stack."""

_ROLES = frozenset(get_args(Role))
_OVERFLOWING_ID = re.compile(r"msg-[0-9a-f]{8}-[0-9]{16,}")
"""An id in the store's own format, with a number that no thread reaches and no backend can look up."""

_ERROR_PATH = re.compile(r"`\$\.(([^`.\[]*)[^`]*)`")

_NUMBER, _JSON = "a signed 64-bit integer", "a JSON value"
_TIMESTAMP = f"a timestamp with a time zone, in the years {EARLIEST.year} to {LATEST.year - 1}"

_write = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_SUSPICIOUS = (re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]"), re.compile(rb"\xcf[\x80-\xff]"))
"""MessagePack prefixes of non-finite floats and of integers above 63 bits; other values may match too. One pattern for
both would take nine times as long: what begins with one certain byte is found fast."""


class _Violation(NamedTuple):
    """A value that is not allowed: its path, and the allowed values."""

    path: str
    value: object
    allowed: str


READ_LIMIT, MAX_PARTS = 10_000, 100
"""Messages of a read, and parts of threads that are read together."""


def check_owner(scope: Scope, *names: str) -> None:
    """Refuse a scope, or names within it (session, persona or key), that are not valid text.

    Raises:
        InvalidInput: naming the field of the scope, or ``key``.
    """
    owned = (*scope, *names)
    try:
        if "".join(owned).isascii():
            return
    except TypeError:
        pass  # one is not text; the loop finds it
    for field, name in zip((*scope._fields, *("key" for _ in names)), owned, strict=True):
        check_text(field, name)


def check_read(scope: Scope, thread: ThreadKey, **seqs: int | None) -> None:
    """Refuse names that are no text, and numbers of messages that no database can compare.

    Raises:
        InvalidInput: naming the field of the scope, ``key``, or the number by its keyword.
    """
    check_owner(scope, thread.session_id, thread.persona_id)
    for field, seq in seqs.items():
        if seq is not None:
            check_range(field, seq, MIN_INTEGER, MAX_INTEGER)


def check_parts(scope: Scope, parts: Sequence[ThreadPart]) -> None:
    """Refuse too many parts of threads, and those that :func:`check_read` refuses or whose limit is out of range.

    Raises:
        InvalidInput: naming ``parts``, ``limit``, or a field as :func:`check_read` does.
    """
    check_range("parts", len(parts), 0, MAX_PARTS)
    for thread, start, limit in parts:
        check_range("limit", limit, 1, READ_LIMIT)
        check_read(scope, thread, start=start)


def check_messages(messages: Sequence[NewMessage]) -> None:
    """Refuse the batch if one of its messages cannot be stored.

    Raises:
        InvalidInput: naming the field as ``messages[1].metadata.score``.
    """
    for index, message in enumerate(messages):
        if not _is_valid_common_message(message):
            for violation in _message_violations(message):
                raise InvalidInput(f"messages[{index}].{violation.path}", violation.value, violation.allowed)
        if message.id is not None:
            check_key(f"messages[{index}].id", message.id)


def check_completion(content: str, tokens: int, metadata: Mapping[str, Any] | None) -> None:
    """Refuse values with which a message cannot be completed.

    Raises:
        InvalidInput: naming the field.
    """
    check_text("content", content)
    for violation in (*_number_violations("tokens", tokens), *_json_violations("metadata", metadata)):
        raise InvalidInput(*violation)


def check_record(record: Record, keep_until: datetime | None = None) -> None:
    """Refuse a record with a field that cannot be stored or is not of its declared type.

    Raises:
        InvalidInput: naming the field as ``metadata.score``.
    """
    if keep_until is not None and not _is_timestamp(keep_until):
        raise InvalidInput("keep_until", keep_until, _TIMESTAMP)
    for field in _timestamp_fields(type(record)):
        if not _is_timestamp(getattr(record, field)):
            raise InvalidInput(field, getattr(record, field), _TIMESTAMP)
    if not _is_plain(record) and not _is_plain_without_timestamps(record):
        for field in record.__struct_fields__:
            for violation in _json_violations(field, getattr(record, field)):
                raise InvalidInput(*violation)
    try:
        _decoder_of(type(record)).decode(_pack(record))
    except msgspec.ValidationError as problem:
        place = _ERROR_PATH.search(str(problem))
        path, value = (place[1], getattr(record, place[2], record)) if place else (record.spec.key, record)
        raise InvalidInput(path, value, f"allowed: {problem}") from problem


def _is_valid_common_message(message: Any) -> bool:
    """Whether the message has only common fields and all are valid; a fast path."""
    return (
        message.role in _ROLES
        and isinstance(message.content, str)
        and is_text(message.content)
        and message.id is message.timestamp is message.name is message.tool_calls is message.tool_call_id is None
        and isinstance(message.tokens, int)
        and 0 <= message.tokens <= MAX_INTEGER
        and isinstance(message.completed, bool)
        and isinstance(message.metadata, dict)
        and (not message.metadata or _is_plain(message.metadata))
    )


def _message_violations(message: Any) -> Iterator[_Violation]:
    if message.role not in _ROLES:
        yield _Violation("role", message.role, f"one of {', '.join(get_args(Role))}")
    yield from _text_violations(message)
    if message.timestamp is not None and not _is_timestamp(message.timestamp):
        yield _Violation("timestamp", message.timestamp, _TIMESTAMP)
    yield from _number_violations("tokens", message.tokens)
    if not isinstance(message.completed, bool):
        yield _Violation("completed", message.completed, "true or false")
    if message.tool_calls is not None:
        yield from _call_violations(message.tool_calls)
    if not isinstance(message.metadata, dict):
        yield _Violation("metadata", message.metadata, "a JSON object")
    elif message.metadata:
        yield from _json_violations("metadata", message.metadata)


def _text_violations(message: Any) -> Iterator[_Violation]:
    if not isinstance(message.content, str):
        yield _Violation("content", message.content, "text")
    for field in ("content", "name", "tool_call_id"):
        text = getattr(message, field)
        if text is not None and not (isinstance(text, str) and is_text(text)):
            yield _Violation(field, text, TEXT)
    if isinstance(message.id, str) and _OVERFLOWING_ID.fullmatch(message.id):
        yield _Violation("id", message.id, "an id whose number is smaller: this format is the store's own")


def _call_violations(calls: object) -> Iterator[_Violation]:
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield _Violation("tool_calls", calls, "a list of JSON objects")
    else:
        yield from _json_violations("tool_calls", calls)


def _number_violations(path: str, number: object) -> Iterator[_Violation]:
    if not isinstance(number, int) or not MIN_INTEGER <= number <= MAX_INTEGER:
        yield _Violation(path, number, _NUMBER)


def _json_violations(path: str, value: object) -> Iterator[_Violation]:
    """The parts of a value that cannot be stored as JSON; searched only if the fast check fails."""
    if not _is_plain(value):
        yield from _search(path, value)


def _is_plain(value: object) -> bool:
    """Whether the value encodes and contains nothing suspicious; fast, without false positives."""
    try:
        written, packed = _write(value), _pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    # Nesting cannot be deeper than the number of opening brackets, including those within texts.
    shallow = written.count(b"[") + written.count(b"{") <= MAX_DEPTH
    return shallow and not any(pattern.search(packed) for pattern in _SUSPICIOUS)


def _is_plain_without_timestamps(record: Record) -> bool:
    """As :func:`_is_plain`, with timestamps as texts: the bytes of about every hundredth look suspicious."""
    try:
        return _is_plain(msgspec.to_builtins(record))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False


def _search(path: str, value: object) -> Iterator[_Violation]:
    """The violations in a JSON value, in order."""
    stack: list[tuple[str, object, int]] = [(path, value, 1)]
    while stack:
        at, found, depth = stack.pop()
        if not isinstance(found, dict | list | tuple):
            yield from _leaf_violations(at, found)
        elif depth > MAX_DEPTH:
            yield _Violation(path, value, f"a JSON value nested at most {MAX_DEPTH} deep")
            return
        elif isinstance(found, dict):
            for key in found:
                yield from _key_violations(at, key)
            stack += [(f"{at}.{str(key)[:40]}", found[key], depth + 1) for key in reversed(found)]
        else:
            stack += [(f"{at}[{index}]", found[index], depth + 1) for index in reversed(range(len(found)))]


def _leaf_violations(at: str, found: object) -> Iterator[_Violation]:
    if isinstance(found, str):
        if not is_text(found):
            yield _Violation(at, found, TEXT)
    elif isinstance(found, int):
        yield from _number_violations(at, found)
    elif isinstance(found, float):
        if not math.isfinite(found):
            yield _Violation(at, found, "a finite number")
    elif found is not None and not isinstance(found, datetime):
        yield from _search_converted(at, found)


def _key_violations(at: str, key: object) -> Iterator[_Violation]:
    """Violations in the name of an object member; numbers are written as text."""
    if isinstance(key, str):
        if not is_text(key):
            yield _Violation(at, key, "an object whose names are valid Unicode text")
    elif isinstance(key, int):
        yield from _number_violations(at, key)
    elif not isinstance(key, float):
        yield _Violation(at, key, "an object whose names are text")


def _search_converted(at: str, found: object) -> Iterator[_Violation]:
    """Violations in a value without a JSON type, which may be convertible to one."""
    try:
        plain = msgspec.to_builtins(found, str_keys=True)
    except (TypeError, ValueError, OverflowError, RecursionError):
        yield _Violation(at, found, _JSON)
    else:
        yield from _search(at, plain)


def _is_timestamp(value: object) -> bool:
    return isinstance(value, datetime) and value.utcoffset() is not None and EARLIEST <= value < LATEST


@cache
def _timestamp_fields(of: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(of).items() if hint is datetime)


@cache
def _decoder_of(of: type[Record]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(of)
