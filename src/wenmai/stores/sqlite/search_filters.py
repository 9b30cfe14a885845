"""Filters of searches in SQL: the values of fields keep their type, and numbers sort before texts."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import apsw

from wenmai.stores.search_values import values_of
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.structs import FieldValue, Range, Where


class Filter(NamedTuple):
    """A condition on a field's ``value``, with its bindings."""

    field: str
    condition: str
    bindings: tuple[FieldValue, ...]


class Sql(NamedTuple):
    """An SQL expression with its bindings."""

    text: str
    bindings: tuple[Any, ...]


class Narrowest(NamedTuple):
    """Filters, the narrowest first, and how many entries satisfy that one, counted up to a limit."""

    filters: list[Filter]
    matches: int


def filters_of(where: Where) -> list[Filter]:
    """The filter of each field."""
    return [Filter(field, *_condition(wanted)) for field, wanted in where.items()]


def matching_entries(partition: int, filters: Sequence[Filter]) -> Sql:
    """A query for the entries of a partition that satisfy all filters, of which there is at least one.

    It reads all entries of the first filter, so that one should be the narrowest.
    """
    first, *others = filters
    rest = entry_matches(partition, others, "s.entry")
    return Sql(
        "SELECT DISTINCT s.entry FROM search_fields s WHERE s.partition = ? AND s.field = ? "
        f"AND {first.condition} AND {rest.text}",
        (partition, first.field, *first.bindings, *rest.bindings),
    )


def narrowest_first(connection: apsw.Connection, partition: int, filters: Sequence[Filter], most: int) -> Narrowest:
    """The filters in the order of how many entries satisfy them, counted up to ``most``."""

    def count(each: Filter) -> int:
        matching = matching_entries(partition, [each])
        sql = f"SELECT count(*) FROM ({matching.text} LIMIT ?)"
        [[counted]] = fetch(connection, sql, (*matching.bindings, most))
        return int(counted)

    counts = {each: count(each) for each in filters}
    ordered = sorted(filters, key=counts.__getitem__)
    return Narrowest(ordered, counts[ordered[0]] if ordered else most)


def entry_matches(partition: int, filters: Sequence[Filter], entry: str) -> Sql:
    """The condition that an entry, in the given column, satisfies all filters; reads the fields of that entry alone."""
    # The plus prevents the planner from using the index that begins with the values.
    conditions = [
        f"EXISTS (SELECT 1 FROM search_fields f WHERE f.entry = {entry} AND +f.partition = ? AND f.field = ? "
        f"AND {each.condition})"
        for each in filters
    ]
    bindings = [value for each in filters for value in (partition, each.field, *each.bindings)]
    return Sql(" AND ".join(["TRUE", *conditions]), tuple(bindings))


def _condition(wanted: FieldValue | Sequence[FieldValue] | Range) -> tuple[str, tuple[FieldValue, ...]]:
    if not isinstance(wanted, Range):
        values = tuple(values_of(wanted))
        return f"value IN ({', '.join('?' * len(values))})", values
    low, high = wanted.low, wanted.high
    if isinstance(low if low is not None else high, str):
        low = "" if low is None else low
    elif high is None:
        high = ""
    bounds = [(f"value {sign} ?", bound) for sign, bound in ((">=", low), ("<", high)) if bound is not None]
    return " AND ".join(text for text, _ in bounds), tuple(bound for _, bound in bounds)
