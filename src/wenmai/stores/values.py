"""Checks of the values that callers hand to a store, so that every backend keeps, or refuses, the same ones.

They run before the work is queued: a value that a database refuses would otherwise fail a transaction that other
callers share. The bounds are stated in :mod:`wenmai.stores.base`.
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
from wenmai.stores.fields import TEXT, check_key, check_range, check_text, is_text
from wenmai.stores.records import NewMessage, Record, Role

EARLIEST = datetime(2, 1, 1, tzinfo=UTC)
LATEST = datetime(9999, 1, 1, tzinfo=UTC)
"""Moments lie between these: what every backend keeps to the microsecond."""

LEAST_NUMBER, LARGEST_NUMBER = -(2**63), 2**63 - 1
MOST_NESTED = 500
"""Levels of lists and objects in a JSON value; the readers' limit is a thousand, less the caller's own stack."""

_ROLES = frozenset(get_args(Role))
_OWN_ID = re.compile(r"msg-[0-9a-f]{8}-[0-9]{16,}")
"""An id as a store makes them, with a number that no thread reaches and no backend can look up."""

_PLACE = re.compile(r"at `\$\.([^`]*)`")

_NUMBER, _JSON = "a signed 64-bit integer", "a JSON value"
_MOMENT = f"a moment with a time zone, in the years {EARLIEST.year} to {LATEST.year - 1}"

_write = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.Encoder().encode
_SUSPICIOUS = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]|\xcf[\x80-\xff]")
"""How MessagePack begins a float that is not finite, and an integer above 63 bits; other values may look alike."""


class _Wrong(NamedTuple):
    """A value that is not allowed: where it is, and what would be allowed there."""

    path: str
    value: object
    allowed: str


def check_owner(scope: Scope, *names: str) -> None:
    """Refuse a scope, or names within it, that are no text: session, persona or key.

    Raises:
        InvalidInput: naming the field of the scope, or ``key``.
    """
    owned = (*scope, *names)
    try:
        if "".join(owned).isascii():
            return
    except TypeError:
        pass  # one is no text, and named below
    for field, name in zip((*scope._fields, *("key" for _ in names)), owned, strict=True):
        check_text(field, name)


def check_read(scope: Scope, thread: ThreadKey, **seqs: int | None) -> None:
    """Refuse names that are no text, and numbers of messages that no database can compare.

    Raises:
        InvalidInput: naming the field of the scope, ``key``, or the number by its keyword.
    """
    check_owner(scope, thread.session_id, thread.npc_id)
    for field, seq in seqs.items():
        if seq is not None:
            check_range(field, seq, LEAST_NUMBER, LARGEST_NUMBER)


def check_messages(messages: Sequence[NewMessage]) -> None:
    """Refuse the batch if one of its messages cannot be stored.

    Raises:
        InvalidInput: naming the field as ``messages[1].metadata.score``.
    """
    for index, message in enumerate(messages):
        if not _is_usual(message):
            for wrong in _wrong_in_message(message):
                raise InvalidInput(f"messages[{index}].{wrong.path}", wrong.value, wrong.allowed)
        if message.id is not None:
            check_key(f"messages[{index}].id", message.id)


def check_settled(content: str, tokens: int, metadata: Mapping[str, Any] | None) -> None:
    """Refuse what a message cannot be filled with.

    Raises:
        InvalidInput: naming the field.
    """
    check_text("content", content)
    for wrong in (*_wrong_number("tokens", tokens), *_wrong_json("metadata", metadata)):
        raise InvalidInput(*wrong)


def check_record(record: Record, keep_until: datetime | None = None) -> None:
    """Refuse a record with a field that cannot be stored, or is not of its declared type.

    Raises:
        InvalidInput: naming the field as ``metadata.score``.
    """
    if keep_until is not None and not _is_moment(keep_until):
        raise InvalidInput("keep_until", keep_until, _MOMENT)
    for field in _moments_of(type(record)):
        if not _is_moment(getattr(record, field)):
            raise InvalidInput(field, getattr(record, field), _MOMENT)
    if not _is_plain(record):
        for field in record.__struct_fields__:
            for wrong in _wrong_json(field, getattr(record, field)):
                raise InvalidInput(*wrong)
    try:
        _reader_of(type(record)).decode(_pack(record))
    except msgspec.ValidationError as problem:
        place = _PLACE.search(str(problem))
        raise InvalidInput(place[1] if place else record.spec.key, record, f"allowed: {problem}") from problem


def _is_usual(message: Any) -> bool:
    """Whether the message is of a kind that most are, and nothing is wrong with it; quick."""
    return (
        message.role in _ROLES
        and isinstance(message.content, str)
        and is_text(message.content)
        and message.id is message.timestamp is message.name is message.tool_calls is message.tool_call_id is None
        and isinstance(message.tokens, int)
        and 0 <= message.tokens <= LARGEST_NUMBER
        and isinstance(message.completed, bool)
        and isinstance(message.metadata, dict)
        and (not message.metadata or _is_plain(message.metadata))
    )


def _wrong_in_message(message: Any) -> Iterator[_Wrong]:
    if message.role not in _ROLES:
        yield _Wrong("role", message.role, f"one of {', '.join(get_args(Role))}")
    yield from _wrong_texts(message)
    if message.timestamp is not None and not _is_moment(message.timestamp):
        yield _Wrong("timestamp", message.timestamp, _MOMENT)
    yield from _wrong_number("tokens", message.tokens)
    if not isinstance(message.completed, bool):
        yield _Wrong("completed", message.completed, "true or false")
    if message.tool_calls is not None:
        yield from _wrong_calls(message.tool_calls)
    if not isinstance(message.metadata, dict):
        yield _Wrong("metadata", message.metadata, "a JSON object")
    elif message.metadata:
        yield from _wrong_json("metadata", message.metadata)


def _wrong_texts(message: Any) -> Iterator[_Wrong]:
    if not isinstance(message.content, str):
        yield _Wrong("content", message.content, "text")
    for field in ("content", "name", "tool_call_id"):
        text = getattr(message, field)
        if text is not None and not (isinstance(text, str) and is_text(text)):
            yield _Wrong(field, text, TEXT)
    if isinstance(message.id, str) and _OWN_ID.fullmatch(message.id):
        yield _Wrong("id", message.id, "an id that no store gives: its number is too large")


def _wrong_calls(calls: object) -> Iterator[_Wrong]:
    if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
        yield _Wrong("tool_calls", calls, "a list of JSON objects")
    else:
        yield from _wrong_json("tool_calls", calls)


def _wrong_number(path: str, number: object) -> Iterator[_Wrong]:
    if not isinstance(number, int) or not LEAST_NUMBER <= number <= LARGEST_NUMBER:
        yield _Wrong(path, number, _NUMBER)


def _wrong_json(path: str, value: object) -> Iterator[_Wrong]:
    """Where a value cannot be stored as JSON; looked for only if the encoders find something to look for."""
    if not _is_plain(value):
        yield from _search(path, value)


def _is_plain(value: object) -> bool:
    """Whether the encoders take the value and nothing in it is suspicious; quick, and never wrongly true."""
    try:
        written, packed = _write(value), _pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    # As many opening brackets, those within texts included, cannot be nested deeper.
    shallow = written.count(b"[") + written.count(b"{") <= MOST_NESTED
    return shallow and _SUSPICIOUS.search(packed) is None


def _search(path: str, value: object) -> Iterator[_Wrong]:
    """What is wrong in a JSON value, in the order in which it stands there."""
    waiting: list[tuple[str, object, int]] = [(path, value, 1)]
    while waiting:
        at, found, depth = waiting.pop()
        if not isinstance(found, dict | list | tuple):
            yield from _wrong_leaf(at, found)
        elif depth > MOST_NESTED:
            yield _Wrong(path, value, f"a JSON value nested at most {MOST_NESTED} deep")
            return
        elif isinstance(found, dict):
            for key in found:
                yield from _wrong_key(at, key)
            waiting += [(f"{at}.{str(key)[:40]}", found[key], depth + 1) for key in reversed(found)]
        else:
            waiting += [(f"{at}[{index}]", found[index], depth + 1) for index in reversed(range(len(found)))]


def _wrong_leaf(at: str, found: object) -> Iterator[_Wrong]:
    if isinstance(found, str):
        if not is_text(found):
            yield _Wrong(at, found, TEXT)
    elif isinstance(found, int):
        yield from _wrong_number(at, found)
    elif isinstance(found, float):
        if not math.isfinite(found):
            yield _Wrong(at, found, "a finite number")
    elif found is not None and not isinstance(found, datetime):
        yield from _search_other(at, found)


def _wrong_key(at: str, key: object) -> Iterator[_Wrong]:
    """The name of a value within an object; numbers are written as text."""
    if isinstance(key, str):
        if not is_text(key):
            yield _Wrong(at, key, "an object whose names are valid Unicode text")
    elif isinstance(key, int):
        yield from _wrong_number(at, key)
    elif not isinstance(key, float):
        yield _Wrong(at, key, "an object whose names are text")


def _search_other(at: str, found: object) -> Iterator[_Wrong]:
    """A value that JSON has no type for, but may be written as another."""
    try:
        plain = msgspec.to_builtins(found, str_keys=True)
    except (TypeError, ValueError, OverflowError, RecursionError):
        yield _Wrong(at, found, _JSON)
    else:
        yield from _search(at, plain)


def _is_moment(moment: object) -> bool:
    return isinstance(moment, datetime) and moment.utcoffset() is not None and EARLIEST <= moment < LATEST


@cache
def _moments_of(of: type[Record]) -> tuple[str, ...]:
    return tuple(name for name, hint in get_type_hints(of).items() if hint is datetime)


@cache
def _reader_of(of: type[Record]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(of)
