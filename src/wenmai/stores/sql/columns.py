"""Shared by the SQL backends: a column for each field of a record, and the cursor of a listing."""

import base64
import binascii
import types
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from wenmai.clock import to_micros
from wenmai.errors import InvalidInput
from wenmai.stores.records import Record
from wenmai.stores.records.base import stored_fields
from wenmai.stores.structs import Stored

Kind = Literal["text", "boolean", "integer", "real", "timestamp", "json"]
"""The kind of a field; ``json`` is every type without a native column type."""

Convert = Callable[[Any], Any]

_TIMESTAMP_DIGITS = 19
"""Digits; a number this long may not fit 64 bits, and no timestamp in microseconds has so many."""


class SqlType(NamedTuple):
    """The column type of a kind of field: name, encoder and decoder (for JSON, of its text)."""

    name: str
    encode: Convert
    decode: Convert


class Column(NamedTuple):
    """The column of a record's field: SQL type, encoder, decoder, and whether None is stored as NULL."""

    name: str
    field: str
    sql_type: str
    encode: Convert
    decode: Convert
    nullable: bool = False


def same(value: Any) -> Any:
    """The value itself, for types that the driver converts."""
    return value


def columns_of(record: type[Record], sql_types: Mapping[Kind, SqlType]) -> list[Column]:
    """The columns of a record type's fields, in the order of its declaration."""
    hints = get_type_hints(record)
    return [_column(name, field, hints[field], sql_types) for name, field in stored_fields(record).items()]


def make_cursor(last: Stored[Any]) -> str:
    """The cursor after which the next page of a listing begins."""
    plain = f"{to_micros(last.created_at)}:{last.record.key}"
    return base64.urlsafe_b64encode(plain.encode()).decode()


def parse_cursor(cursor: str) -> tuple[int, str]:
    """Creation time, in microseconds since 1970 UTC, and key of the last record of the previous page.

    Raises:
        InvalidInput: it was not made by :func:`make_cursor`.
    """
    try:
        created_at, colon, key = base64.urlsafe_b64decode(cursor.encode("ascii")).decode().partition(":")
        if colon and len(created_at) < _TIMESTAMP_DIGITS:
            return int(created_at), key
    except (ValueError, binascii.Error):
        pass
    raise InvalidInput("cursor", cursor, "a cursor of an earlier page")


def _column(name: str, field: str, hint: Any, sql_types: Mapping[Kind, SqlType]) -> Column:
    kind = _kind_of(hint)
    sql_type = sql_types[kind]
    if kind != "json":
        nullable = types.NoneType in get_args(hint)
        return Column(name, field, sql_type.name, _nullable(sql_type.encode), _nullable(sql_type.decode), nullable)
    encoder, decoder = msgspec.json.Encoder(), msgspec.json.Decoder(hint)
    return Column(
        name,
        field,
        sql_type.name,
        lambda value: sql_type.encode(encoder.encode(value).decode()),
        decoder.decode if sql_type.decode is same else lambda text: decoder.decode(sql_type.decode(text)),
    )


def _kind_of(hint: Any) -> Kind:
    inner = hint
    if get_origin(hint) in (Union, types.UnionType):
        options = [option for option in get_args(hint) if option is not types.NoneType]
        inner = options[0] if len(options) == 1 else object
    if get_origin(inner) is Literal:
        return "text"
    native: dict[Any, Kind] = {str: "text", bool: "boolean", int: "integer", float: "real", datetime: "timestamp"}
    return native.get(inner, "json") if isinstance(inner, type) else "json"


def _nullable(convert: Convert) -> Convert:
    return convert if convert is same else lambda value: None if value is None else convert(value)
