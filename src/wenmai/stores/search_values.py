"""Validation of searches, so that every backend accepts and refuses the same.

The bounds are stated in :mod:`wenmai.stores.contracts`. Values are checked before the work is queued.
"""

from collections.abc import Sequence
from hashlib import sha256
from math import isfinite

import msgspec

from wenmai.errors import InvalidInput
from wenmai.scope import Scope
from wenmai.stores.structs import FieldValue, Range, RankFusion, SearchEntry, SearchQuery, WeightedFusion, Where
from wenmai.stores.validation import are_keys, check_key, check_text
from wenmai.stores.values import check_owner

MAX_QUERIES, MAX_HITS, MAX_POOL, MAX_IDS = 20, 500, 1_000, 500
MAX_FIELDS, MAX_VALUES = 100, 10_000
"""Fields of a filter, and values of all its fields together."""
MAX_DIMENSION = 16_000
MAX_COMPONENT = 3.4e38
"""Vectors are stored with 32-bit floats."""
SAFE_INTEGERS = 2**53
"""Integers nearer to zero are exact as floats."""


def text_digest(text: str) -> bytes:
    """The digest, 32 bytes, by which an entry's text is compared with the one indexed before."""
    return sha256(text.encode()).digest()


def values_of(values: FieldValue | Sequence[FieldValue]) -> Sequence[FieldValue]:
    """The values of a field, or of a filter that is no range, as a sequence."""
    return [values] if isinstance(values, str | int | float) else values


def is_within(value: FieldValue, wanted: Range) -> bool:
    """Whether the value is in the range."""
    bounds = (wanted.low, wanted.high)
    if any(bound is not None and isinstance(bound, str) != isinstance(value, str) for bound in bounds):
        return False
    return (wanted.low is None or wanted.low <= value) and (  # type: ignore[operator]  # of one kind, as checked
        wanted.high is None or value < wanted.high  # type: ignore[operator]
    )


def check_collection(scope: Scope, collection: str) -> None:
    """Refuse a scope or the name of a collection that is not valid.

    Raises:
        InvalidInput: naming the field of the scope, or ``collection``.
    """
    check_owner(scope)
    check_key("collection", collection)


def check_entries(entries: Sequence[SearchEntry], dimension: int | None) -> int | None:
    """Refuse the batch if one of its entries cannot be indexed.

    Args:
        entries: to index.
        dimension: the length of the collection's vectors; None if it has none, or is not known yet.

    Returns:
        The length of the collection's vectors with these entries; None if there is still none.

    Raises:
        InvalidInput: naming the field as ``entries[0].fields.year``.
    """
    for index, entry in enumerate(entries):
        path = f"entries[{index}]"
        check_key(f"{path}.id", entry.id)
        check_text(f"{path}.text", entry.text)
        if entry.vector is not None:
            dimension = check_vector(f"{path}.vector", entry.vector, dimension)
        for name, values in entry.fields.items():
            check_text(f"{path}.fields", name)
            _check_values(f"{path}.fields.{name}", values)
    return dimension


def check_vectors(entries: Sequence[SearchEntry], dimension: int | None) -> None:
    """Refuse the batch if one of its entries has no vector, or none of the collection's length.

    Raises:
        InvalidInput: naming the field as ``entries[0].vector``.
    """
    for index, entry in enumerate(entries):
        path = f"entries[{index}]"
        check_key(f"{path}.id", entry.id)
        check_text(f"{path}.text", entry.text)
        dimension = check_vector(f"{path}.vector", entry.vector, dimension)


def check_queries(queries: Sequence[SearchQuery]) -> None:
    """Refuse the queries if one of them is not valid.

    Raises:
        InvalidInput: naming the field as ``queries[0].limit``.
    """
    if len(queries) > MAX_QUERIES:
        raise InvalidInput("queries", len(queries), f"at most {MAX_QUERIES} queries")
    for index, query in enumerate(queries):
        _check_query(f"queries[{index}]", query)


def check_query_lengths(queries: Sequence[SearchQuery], dimension: int | None) -> None:
    """Refuse checked queries whose vectors are not as long as those of the collection.

    Raises:
        InvalidInput: naming the field as ``queries[0].vector``.
    """
    for index, query in enumerate(queries):
        if query.vector is not None:
            _check_length(f"queries[{index}].vector", len(query.vector), dimension)


def without_zeros(query: SearchQuery) -> SearchQuery:
    """The query, with a vector of zeros as none: all vectors would be equally near."""
    if query.vector is None or any(value * value for value in query.vector):
        return query
    return msgspec.structs.replace(query, vector=None, text=query.text or "")


def check_removal(ids: Sequence[str] | None, where: Where | None) -> None:
    """Refuse a removal that does not name exactly one of the two, or whose filter has no field.

    Raises:
        InvalidInput: naming ``ids``, ``where`` or the value within it.
    """
    if (ids is None) == (where is None):
        raise InvalidInput("where", where, "given, or ids, not both")
    if ids is not None:
        _check_ids("ids", ids)
    elif not where:
        raise InvalidInput("where", where, "a filter of one field or more")
    else:
        check_where("where", where)


def check_where(path: str, where: Where) -> None:
    """Refuse a filter by a value that no field can have, by a range without a bound or of two kinds, or by too much.

    Raises:
        InvalidInput: naming the field as ``{path}.year``, or ``path`` for the whole filter.
    """
    if len(where) > MAX_FIELDS:
        raise InvalidInput(path, len(where), f"at most {MAX_FIELDS} fields")
    for name, wanted in where.items():
        check_text(path, name)
        at = f"{path}.{name}"
        if isinstance(wanted, Range):
            bounds = {bound: value for bound in ("low", "high") if (value := getattr(wanted, bound)) is not None}
            for bound, value in bounds.items():
                _check_value(f"{at}.{bound}", value)
            if len({isinstance(value, str) for value in bounds.values()}) != 1:
                raise InvalidInput(at, wanted, "a range with a bound, or two of one kind")
        else:
            _check_values(at, wanted)
    values = sum(len(values_of(wanted)) for wanted in where.values() if not isinstance(wanted, Range))
    if values > MAX_VALUES:
        raise InvalidInput(path, values, f"at most {MAX_VALUES} values")


def check_vector(path: str, vector: Sequence[float] | None, dimension: int | None) -> int:
    """The length of a valid vector.

    Args:
        path: names the vector.
        vector: to check.
        dimension: the length of the collection's vectors, if known.

    Raises:
        InvalidInput: naming ``path``.
    """
    if vector is None or isinstance(vector, str | bytes) or not 1 <= len(vector) <= MAX_DIMENSION:
        raise InvalidInput(path, vector, f"a vector of 1 to {MAX_DIMENSION} numbers")
    if not _are_components(vector):
        raise InvalidInput(path, vector, "a vector of finite 32-bit floats")
    return _check_length(path, len(vector), dimension)


def check_dimension(entries: Sequence[SearchEntry], known: int | None) -> int | None:
    """Refuse checked entries whose vectors are not as long as those of the collection.

    Returns:
        The length of the collection's vectors with these entries; None if there is still none.

    Raises:
        InvalidInput: naming the field as ``entries[0].vector``.
    """
    for index, entry in enumerate(entries):
        if entry.vector is not None:  # the others of the batch are as long
            return _check_length(f"entries[{index}].vector", len(entry.vector), known)
    return known


def check_page(after: str, limit: int) -> None:
    """Refuse a page of ids that no backend can list.

    Raises:
        InvalidInput: naming ``after`` or ``limit``.
    """
    if after:
        check_key("after", after)
    _check_count("limit", limit, 1, MAX_IDS)


def _check_length(path: str, length: int, dimension: int | None) -> int:
    if dimension is not None and length != dimension:
        raise InvalidInput(path, length, f"a vector of the collection's length, {dimension}")
    return length


def _check_query(path: str, query: SearchQuery) -> None:
    if query.text is None and query.vector is None:
        raise InvalidInput(f"{path}.text", None, "given, or a vector")
    if query.text is not None:
        check_text(f"{path}.text", query.text)
    if query.vector is not None:
        check_vector(f"{path}.vector", query.vector, None)
    check_where(f"{path}.where", query.where)
    if query.ids is not None:
        _check_ids(f"{path}.ids", query.ids)
        if len(query.ids) > MAX_IDS:
            raise InvalidInput(f"{path}.ids", len(query.ids), f"at most {MAX_IDS} ids")
    _check_count(f"{path}.limit", query.limit, 1, MAX_HITS)
    fused = query.text is not None and query.vector is not None
    _check_count(f"{path}.pool", query.pool, query.limit if fused else 1, MAX_POOL)
    _check_fusion(f"{path}.fusion", query.fusion)


def _check_fusion(path: str, fusion: RankFusion | WeightedFusion) -> None:
    if isinstance(fusion, RankFusion):
        _check_count(f"{path}.constant", fusion.constant, 0, SAFE_INTEGERS)
        return
    for name, weight in (("words", fusion.words), ("vector", fusion.vector)):
        if not _is_number(weight) or not 0 <= weight <= SAFE_INTEGERS:
            raise InvalidInput(f"{path}.{name}", weight, "a weight of 0 or more")


def _check_ids(path: str, ids: Sequence[str]) -> None:
    if isinstance(ids, str):
        raise InvalidInput(path, ids, "a sequence of ids")
    if are_keys(ids):
        return
    for index, id_ in enumerate(ids):
        check_key(f"{path}[{index}]", id_)


def _check_count(path: str, number: object, least: int, most: int) -> None:
    if not isinstance(number, int) or isinstance(number, bool) or not least <= number <= most:
        raise InvalidInput(path, number, f"a number from {least} to {most}")


def _check_values(path: str, values: object) -> None:
    """Refuse what is neither a value nor a sequence of values."""
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        for index, value in enumerate(values):
            _check_value(f"{path}[{index}]", value)
    else:
        _check_value(path, values)


def _check_value(path: str, value: object) -> None:
    if isinstance(value, str):
        check_text(path, value)
    elif not _is_number(value):
        raise InvalidInput(path, value, "text, a finite float or an integer within 53 bits")


def _is_number(value: object) -> bool:
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < SAFE_INTEGERS
    return isinstance(value, float) and isfinite(value)


def _are_components(vector: Sequence[float]) -> bool:
    try:
        return all(map(isfinite, vector)) and min(vector) >= -MAX_COMPONENT and max(vector) <= MAX_COMPONENT
    except (TypeError, OverflowError):
        return False
