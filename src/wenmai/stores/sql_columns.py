"""What the SQL backends share: a column for each field of a record, and the cursor of a listing."""

import base64
import binascii
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from wenmai.clock import to_micros
from wenmai.errors import InvalidInput
from wenmai.stores.base import Stored
from wenmai.stores.records import Record

Kind = Literal["text", "boolean", "integer", "real", "moment", "json"]
"""What a field is to a database; ``json`` is everything that has no column type of its own."""

Convert = Callable[[Any], Any]

_LONGEST_MOMENT = 19
"""Digits; a number of so many may not fit 64 bits, and no moment in microseconds has them."""


class SqlType(NamedTuple):
    """How a database keeps a kind of field: the type's name, and the way there and back, for JSON that of its text."""

    name: str
    encode: Convert
    decode: Convert


class Column(NamedTuple):
    """How a record's field is kept: its SQL type, and the way there and back."""

    name: str
    sql_type: str
    encode: Convert
    decode: Convert


def same(value: Any) -> Any:
    """The value itself: what the driver takes and gives as it is."""
    return value


def columns_of(record: type[Record], sql_types: Mapping[Kind, SqlType]) -> list[Column]:
    """The columns of a record type's fields, in the order of its declaration."""
    hints = get_type_hints(record)
    return [_column(name, hints[name], sql_types) for name in record.__struct_fields__]


def make_cursor(last: Stored[Any]) -> str:
    """The place after which the next page of a listing begins."""
    plain = f"{to_micros(last.created_at)}:{last.record.key}"
    return base64.urlsafe_b64encode(plain.encode()).decode()


def parse_cursor(cursor: str) -> tuple[int, str]:
    """The moment, in microseconds since 1970 UTC, and the key of the last record of the page before.

    Raises:
        InvalidInput: it is no cursor of :func:`make_cursor`.
    """
    try:
        created_at, colon, key = base64.urlsafe_b64decode(cursor.encode("ascii")).decode().partition(":")
        if colon and len(created_at) < _LONGEST_MOMENT:
            return int(created_at), key
    except (ValueError, binascii.Error):
        pass
    raise InvalidInput("cursor", cursor, "a cursor of an earlier page")


def _column(name: str, hint: Any, sql_types: Mapping[Kind, SqlType]) -> Column:
    kind = _kind_of(hint)
    sql_type = sql_types[kind]
    if kind != "json":
        return Column(name, sql_type.name, _maybe(sql_type.encode), _maybe(sql_type.decode))
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(hint)
    return Column(
        name,
        sql_type.name,
        lambda value: sql_type.encode(encoder.encode(value).decode()),
        lambda text: decoder.decode(sql_type.decode(text)),
    )


def _kind_of(hint: Any) -> Kind:
    inner = hint
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not types.NoneType]
        inner = options[0] if len(options) == 1 else object
    if get_origin(inner) is Literal:
        return "text"
    native: dict[Any, Kind] = {str: "text", bool: "boolean", int: "integer", float: "real", datetime: "moment"}
    return native.get(inner, "json") if isinstance(inner, type) else "json"


def _maybe(convert: Convert) -> Convert:
    return convert if convert is same else lambda value: None if value is None else convert(value)
