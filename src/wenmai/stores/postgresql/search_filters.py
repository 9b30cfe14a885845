"""Filters of searches: values as sort keys, so that one index serves equality and ranges, of texts and of numbers."""

import json
from collections.abc import Sequence
from struct import pack, unpack
from typing import Any

from wenmai.stores.postgresql.database import escape
from wenmai.stores.postgresql.search_terms import index_term
from wenmai.stores.search_values import values_of
from wenmai.stores.structs import FieldValue, Range, Where

INDEXED_PREFIX = 64
"""Length of the indexed prefix of a sort key (see the table definitions)."""

_TEXTS, _AFTER_TEXTS = "s", "t"
_NUMBERS, _AFTER_NUMBERS = "n", "o"
_SIGN, _ALL = 1 << 63, (1 << 64) - 1

FILTERS = f"""
  SELECT w.*, ARRAY(SELECT left(k, {INDEXED_PREFIX}) FROM unnest(w.sort_keys) k) AS prefixes
  FROM jsonb_to_recordset({{0}}::text::jsonb)
    AS w (query integer, field text, sort_keys text[], low text COLLATE "C", high text COLLATE "C")"""
"""The rows of a parameter, made by :func:`filters_json`; a statement names them ``filters``."""

MATCHES = """NOT EXISTS (
      SELECT FROM filters w WHERE w.query = {query} AND NOT EXISTS (
        SELECT FROM search_fields f WHERE f.entry = {entry} AND f.field = w.field
        AND (f.sort_key = ANY (w.sort_keys) OR (f.sort_key >= w.low AND f.sort_key < w.high))
      )
    )"""
"""Whether an entry satisfies all filters of a query; reads the fields of this entry alone."""

MATCHING = f"""
    SELECT m.entry FROM filters w CROSS JOIN LATERAL (
      SELECT f.entry FROM search_fields f
      WHERE f.partition = {{partition}} AND f.field = w.field
        AND left(f.sort_key, {INDEXED_PREFIX}) = ANY (w.prefixes) AND f.sort_key = ANY (w.sort_keys)
      UNION
      SELECT f.entry FROM search_fields f
      WHERE f.partition = {{partition}} AND f.field = w.field
        AND left(f.sort_key, {INDEXED_PREFIX}) >= left(w.low, {INDEXED_PREFIX})
        AND left(f.sort_key, {INDEXED_PREFIX}) <= left(w.high, {INDEXED_PREFIX})
        AND f.sort_key >= w.low AND f.sort_key < w.high
    ) m
    WHERE w.query = {{query}}
    GROUP BY m.entry HAVING count(*) = (SELECT count(*) FROM filters c WHERE c.query = {{query}})"""
"""All entries of a partition that satisfy the filters of a query, of which there is at least one; by the index."""


def filters_json(wheres: Sequence[Where]) -> str:
    """A row for each field of each filter, with the filter's index as ``query``."""
    rows = []
    for query, where in enumerate(wheres):
        for field, wanted in where.items():
            row: dict[str, Any] = {"query": query, "field": escape(index_term(field))}
            if isinstance(wanted, Range):
                row["low"], row["high"] = _bounds(wanted)
            else:
                row["sort_keys"] = [escape(sort_key(value)) for value in values_of(wanted)]
            rows.append(row)
    return json.dumps(rows)


def sort_key(value: FieldValue) -> str:
    """A text without NUL; keys of texts are in the order of their code points, those of numbers in their order."""
    if isinstance(value, str):
        return _TEXTS + value.replace("\x01", "\x01\x02").replace("\0", "\x01\x01")
    (bits,) = unpack(">Q", pack(">d", value + 0.0))
    return f"{_NUMBERS}{bits ^ (_ALL if bits & _SIGN else _SIGN):016x}"


def _bounds(wanted: Range) -> tuple[str, str]:
    """The lowest sort key of the range, and the first after it."""
    if isinstance(wanted.low if wanted.low is not None else wanted.high, str):
        low, high = _TEXTS, _AFTER_TEXTS
    else:
        low, high = _NUMBERS, _AFTER_NUMBERS
    if wanted.low is not None:
        low = sort_key(wanted.low)
    if wanted.high is not None:
        high = sort_key(wanted.high)
    return escape(low), escape(high)
