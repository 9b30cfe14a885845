"""The format of a record: a hash with its fields, and the store's own.

Text is stored as it is; numbers and booleans (``0``, ``1``) as digits; datetimes as microseconds since 1970 UTC;
everything else as JSON; None is not stored. The store's own fields begin with an underscore, except for
``updated_at``, which other programs may read and is RFC 3339.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec

from wenmai.clock import from_micros, to_micros
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import IdempotentTurn, Record, TraceRecord
from wenmai.stores.records.base import stored_fields
from wenmai.stores.structs import Stored

R = TypeVar("R", bound=Record)

Row = Mapping[bytes, bytes]
"""A hash as it is read.

``_born`` is random and created with the hash: for a session it is the incarnation, also if an older version wrote it.
If a record is bound to a session, a read adds ``_session``: the session's incarnation, empty if the session is gone.
"""


class Codec(NamedTuple):
    """Encoder and decoder of one field."""

    encode: Callable[[Any], str]
    decode: Callable[[str], Any]


def _codec(hint: Any) -> Codec:
    inner = hint
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not types.NoneType]
        inner = options[0] if len(options) == 1 else object
    if inner is str or get_origin(inner) is Literal:
        return Codec(str, str)
    if inner is bool:
        return Codec(lambda value: str(int(value)), lambda text: text == "1")
    if inner is int:
        return Codec(str, int)
    if inner is float:
        return Codec(repr, float)
    if inner is datetime:
        return Codec(lambda moment: str(to_micros(moment)), lambda text: from_micros(int(text)))
    decoder, encoder = msgspec.json.Decoder(hint), msgspec.json.Encoder()
    return Codec(lambda value: encoder.encode(value).decode(), decoder.decode)


@cache
def codecs_of(of: type[Record]) -> dict[str, Codec]:
    """The codec of each field by its stored name, in order of declaration."""
    hints = get_type_hints(of)
    return {name: _codec(hints[field]) for name, field in stored_fields(of).items()}


def encode(record: Record) -> tuple[list[str], list[str]]:
    """The record's fields and values by turns, and the names of the fields that are None."""
    pairs: list[str] = []
    absent: list[str] = []
    fields = stored_fields(type(record))
    for name, codec in codecs_of(type(record)).items():
        value = getattr(record, fields[name])
        if value is None:
            absent.append(name)
        else:
            pairs += (name, codec.encode(value))
    return pairs, absent


def as_row(answer: Sequence[bytes]) -> Row:
    """The hash of a reply to HGETALL, which is names and values by turns; empty if there is none."""
    return dict(zip(answer[::2], answer[1::2], strict=True))


def text_of(row: Row, field: str) -> str:
    """The value of a field that every row has."""
    return row[field.encode()].decode()


def end_of(row: Row) -> int | None:
    """The end of the record in microseconds; None if it has none."""
    end = row.get(b"_ends")
    return None if end is None else int(end)


_MISSING: dict[type[Record], dict[str, Callable[[Row], Any]]] = {
    TraceRecord: {"ref": lambda row: text_of(row, "trace_id")},
    IdempotentTurn: {
        "attempt_id": lambda row: text_of(row, "_born"),
        "asked_session": lambda row: text_of(row, "session_id"),
    },
}
"""Fields without a default that are missing in hashes of older versions, which stored traces under the trace id."""


def decode(row: Row, of: type[R]) -> Stored[R]:
    """The record of a hash; a missing field has its default."""
    codecs, names = codecs_of(of), stored_fields(of)
    fields = {
        names[name]: codec.decode(row[name.encode()].decode()) for name, codec in codecs.items() if name.encode() in row
    }
    missing = {name: make(row) for name, make in _MISSING.get(of, {}).items() if name not in fields}
    if of.spec.identity and b"_born" in row:
        fields[of.spec.identity] = text_of(row, "_born")
    if row.get(b"_session"):
        fields[INCARNATION] = text_of(row, "_session")
    return Stored(
        of(**fields, **missing),
        int(text_of(row, "_version")),
        text_of(row, "_user"),
        from_micros(int(text_of(row, "_created"))),
        datetime.fromisoformat(text_of(row, "updated_at")),
    )


def rfc3339(moment: datetime) -> str:
    """The datetime in UTC with ``Z``, with microseconds unless they are 0."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
