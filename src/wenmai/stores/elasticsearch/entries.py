"""Entries of the search contract as documents, and back."""

import struct
from base64 import b64encode, urlsafe_b64decode
from collections import Counter
from collections.abc import Mapping, Sequence
from math import hypot
from typing import Any

import msgspec

from wenmai.scope import Scope
from wenmai.stores.elasticsearch.client import Client, Ref
from wenmai.stores.elasticsearch.indices import SEARCH, vector_field
from wenmai.stores.elasticsearch.rows import digest
from wenmai.stores.search_values import text_digest, values_of
from wenmai.stores.structs import FieldValue, Range, SearchEntry, Where
from wenmai.stores.vector_matrix import to_bytes
from wenmai.text.cjk import terms

LONGEST_TERM = 200
"""Characters of a term that is indexed as it is; the analyser splits those of more than 255."""
LONGEST_VALUE = 8_000
"""Characters of a value that is indexed as it is; the server refuses more than 32 766 bytes."""

_NAME_DIGITS = 16
_NUMBER, _TEXT = "n", "s"
_VECTOR_DIGITS = 8
"""Decimals of a normalised component; it is a 32-bit float in the index."""
_SIGN = 1 << 63
_DIGITS = 16

_encode = msgspec.json.Encoder().encode


class Packed(msgspec.Struct, array_like=True):
    """What a search needs of an entry: its id, its length and counts in terms, and its fields."""

    id: str
    length: int
    counts: dict[str, int]
    fields: dict[str, FieldValue | list[FieldValue]]


def owner_of(scope: Scope, collection: str, *, shared: bool) -> str:
    """The collection of one scope; no user id is empty."""
    return digest(collection, scope.tenant_id, scope.site_id, "" if shared else scope.user_id)


def entry_ref(client: Client, owner: str, id_: str) -> Ref:
    """The place of an entry."""
    return Ref(client.index(SEARCH), digest(owner, id_), owner)


def owner_ref(client: Client, owner: str) -> Ref:
    """The place of the length of a collection's vectors."""
    return Ref(client.index(SEARCH), owner, owner)


def term_token(term: str) -> str:
    """The term as it is indexed."""
    return term if len(term) <= LONGEST_TERM else digest(term)


def document_of(owner: str, entry: SearchEntry) -> dict[str, Any]:
    """The entry as it is stored, without its vector."""
    found = [term_token(term) for term in terms(entry.text)]
    fields = {name: _plain(values) for name, values in entry.fields.items()}
    packed = Packed(entry.id, len(found), dict(Counter(found)), fields)
    return {
        "owner": owner,
        "id": entry.id,
        "text": entry.text,
        "terms": " ".join(found),
        "length": len(found),
        "values": sorted({value_token(name, value) for name, those in fields.items() for value in values_of(those)}),
        "embedded": False,
        "packed": b64encode(_encode(packed)).decode(),
        "digest": text_digest(entry.text).hex(),
    }


def with_vector(document: Mapping[str, Any], vector: Sequence[float]) -> dict[str, Any]:
    """The document with its vector, as it came and, unless it is of zeros, normalised for the index."""
    embedded = {**document, "embedded": True, "vector": b64encode(to_bytes(vector, "<")).decode()}
    length = hypot(*vector)
    if length:
        embedded[vector_field(len(vector))] = [round(value / length, _VECTOR_DIGITS) for value in vector]
    return embedded


def unpacked(column: str) -> Packed:
    """The entry in the column ``packed``."""
    return msgspec.json.decode(_column_bytes(column), type=Packed)


def vector_bytes(column: str) -> bytes:
    """The vector as it came, in 32-bit floats."""
    return _column_bytes(column)


def vector_of(column: str) -> tuple[float, ...]:
    """The numbers of :func:`vector_bytes`."""
    raw = vector_bytes(column)
    return struct.unpack(f"<{len(raw) // 4}f", raw)


def value_token(name: str, value: FieldValue) -> str:
    """A field's value as it is indexed, in the order of the values of its kind."""
    prefix = digest(name)[:_NAME_DIGITS]
    if isinstance(value, str):
        kept = value if len(value) <= LONGEST_VALUE else value[: LONGEST_VALUE - 40] + digest(value)
        return f"{prefix}{_TEXT}{kept}"
    [bits] = struct.unpack(">Q", struct.pack(">d", float(value) + 0.0))  # there is one zero
    ordered = bits ^ (2 * _SIGN - 1 if bits & _SIGN else _SIGN)
    return f"{prefix}{_NUMBER}{ordered:0{_DIGITS}x}"


def filters_of(where: Where) -> list[dict[str, Any]]:
    """The queries that a filter is, all of which must match."""
    return [_filter(name, wanted) for name, wanted in where.items()]


def _filter(name: str, wanted: FieldValue | Sequence[FieldValue] | Range) -> dict[str, Any]:
    if not isinstance(wanted, Range):
        return {"terms": {"values": [value_token(name, value) for value in values_of(wanted)]}}
    bounds = [bound for bound in (wanted.low, wanted.high) if bound is not None]
    kind = digest(name)[:_NAME_DIGITS] + (_TEXT if isinstance(bounds[0], str) else _NUMBER)
    low = kind if wanted.low is None else value_token(name, wanted.low)
    high = kind[:-1] + chr(ord(kind[-1]) + 1) if wanted.high is None else value_token(name, wanted.high)
    return {"range": {"values": {"gte": low, "lt": high}}}


def _column_bytes(column: str) -> bytes:
    """The bytes of a column, which searches return in base64 of either alphabet, with padding or without."""
    return urlsafe_b64decode(f"{column}==")


def _plain(values: FieldValue | Sequence[FieldValue]) -> FieldValue | list[FieldValue]:
    return values if isinstance(values, str | int | float) else list(values)
