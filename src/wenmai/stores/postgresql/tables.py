"""The statements of a record type: one table, a column per field, and one statement per call.

A bound record is written by a statement that locks its session's row. A concurrent delete of the session either comes
first, and the write is refused, or comes later and removes the record.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from wenmai.stores.identity import INCARNATION, SESSION_ID, preserved_fields
from wenmai.stores.postgresql.database import unescape
from wenmai.stores.records import Record, RecordSpec
from wenmai.stores.sql.columns import Column, Kind, SqlType, columns_of, same

SWEEP_BATCH = 1_000
"""Rows that a sweep removes per statement, so that each is short."""

INDEXED_PREFIX = 64
"""Length of the indexed prefix of a filter field (see the table definitions)."""

LISTING_HINT = "row_id > 0"
"""Always true; only statements with this condition can use the partial indexes of listings."""

SQL_TYPES: Mapping[Kind, SqlType] = {
    "text": SqlType("text", same, unescape),
    "boolean": SqlType("boolean", same, same),
    "integer": SqlType("bigint", same, same),
    "real": SqlType("double precision", same, same),
    "timestamp": SqlType("timestamp with time zone", same, same),
    "json": SqlType("json", same, unescape),
}
"""Column types of record fields; texts are escaped when they are bound."""

_KNOWN = ("version", "user_id", "created_at", "updated_at")


class PutStatements(NamedTuple):
    """The statements of a put; arguments: scope, now, ``keep_until``, the fields, for the update a version or NULL.

    Each returns a row of version, owner, timestamps and :attr:`Table.store_assigned` fields, or no row on a conflict.
    For a bound record, a conflict is a row of NULLs, and no row means that the session does not exist.
    """

    insert: str
    upsert: str
    update: str


class Table(NamedTuple):
    """The statements of a record type; all but the sweep take the scope as ``$1`` to ``$3`` and now as ``$4``.

    Attributes:
        store_assigned: fields that the store sets or adjusts.
        unbound: for a record that names no session.
        bound: for a record that names a session.
        delete_stale: deletes an expired record, or one bound to a deleted session, of any user.
    """

    columns: list[Column]
    store_assigned: list[Column]
    select: str
    unbound: PutStatements
    bound: PutStatements
    delete: str
    delete_stale: str
    sweep: str


@cache
def table_of(of: type[Record]) -> Table:
    """The statements of the record type."""
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    name = spec.collection
    at_key = f"{name}.tenant_id = $1 AND {name}.site_id = $2 AND {name}.{spec.key} = $5"
    stale = f"({name}.keep_until <= $4 OR NOT {_session_exists(of)})" if spec.bound_to else f"{name}.keep_until <= $4"
    return Table(
        columns=columns,
        store_assigned=[column for field in _store_assigned(spec) for column in columns if column.name == field],
        select=f"SELECT {', '.join((*(column.name for column in columns), *_KNOWN))} FROM {name} "
        f"WHERE tenant_id = $1 AND site_id = $2 AND {_visible(of)}",
        unbound=_put_statements(of, columns, "SELECT {incarnation} AS incarnation"),
        bound=_put_statements(of, columns, _SESSION),
        delete=f"DELETE FROM {name} WHERE {at_key} AND {_visible(of)} AND ($6::bigint IS NULL OR version = $6) "
        f"AND ($7::text IS NULL OR {spec.identity or 'NULL'} = $7) RETURNING 1",
        # The user id is used only so that all statements have the same arguments.
        delete_stale=f"DELETE FROM {name} WHERE {at_key} AND {stale} AND $3::text IS NOT NULL RETURNING 1",
        sweep=f"DELETE FROM {name} WHERE row_id IN (SELECT row_id FROM {name} WHERE keep_until <= $1 "
        f"LIMIT {SWEEP_BATCH} FOR UPDATE SKIP LOCKED) RETURNING 1",
    )


def by_key(of: type[Record]) -> str:
    """The statement that reads records by key; arguments: scope, now, keys."""
    return f"{table_of(of).select} AND {of.spec.key} = ANY($5::text[])"


_SESSION = """
SELECT c.incarnation FROM conversations c
WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = {session_id}
  AND (c.keep_until IS NULL OR c.keep_until > $4) AND ({incarnation} = '' OR c.incarnation = {incarnation})
FOR KEY SHARE"""


def _store_assigned(spec: RecordSpec) -> tuple[str, ...]:
    return (*preserved_fields(spec), INCARNATION) if spec.bound_to else preserved_fields(spec)


def _session_exists(of: type[Record]) -> str:
    """The condition that the session of a bound record exists, looked up by key for each record."""
    name = of.spec.collection
    return (
        f"({name}.session_id = '' OR coalesce({name}.incarnation = (SELECT c.incarnation FROM conversations c "
        f"WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.session_id = {name}.session_id "
        "AND (c.keep_until IS NULL OR c.keep_until > $4)), FALSE))"
    )


def _visible(of: type[Record]) -> str:
    """The condition that the record is visible to the scope now."""
    name = of.spec.collection
    # The user id is used for shared records too, so that all statements have the same arguments.
    seen = (
        f"({str(of.spec.shared).upper()} OR {name}.user_id = $3) "
        f"AND ({name}.keep_until IS NULL OR {name}.keep_until > $4)"
    )
    return f"{seen} AND {_session_exists(of)}" if of.spec.bound_to else seen


def _put_statements(of: type[Record], columns: list[Column], session: str) -> PutStatements:
    """The statements of a put; ``session`` is the query for the incarnation of a bound record's session."""
    spec, name = of.spec, of.spec.collection
    marks = {column.name: f"${number}::{column.sql_type}" for number, column in enumerate(columns, start=6)}
    values, source = dict(marks), ""
    if spec.bound_to:
        values[INCARNATION], source = "s.incarnation", " FROM s"
    insert = (
        f"INSERT INTO {name} (tenant_id, site_id, user_id, version, created_at, updated_at, keep_until, "
        f"{', '.join(values)}) SELECT $1::text, $2::text, $3::text, 1, $4::timestamptz, $4::timestamptz, "
        f"$5::timestamptz, {', '.join(values.values())}{source} ON CONFLICT (tenant_id, site_id, {spec.key})"
    )
    replaced = _changes(spec, {field: f"excluded.{field}" for field in values})
    own = (
        f" AND ({marks[spec.identity]} = '' OR {name}.{spec.identity} = {marks[spec.identity]})"
        if spec.identity
        else ""
    )
    returning = f"RETURNING {', '.join(f'{name}.{field}' for field in (*_KNOWN, *_store_assigned(spec)))}"
    version = f"${6 + len(columns)}"
    statements = PutStatements(
        insert=f"{insert} DO NOTHING {returning}",
        upsert=f"{insert} DO UPDATE SET {replaced} WHERE {_visible(of)} {returning}",
        update=f"UPDATE {name} SET {_changes(spec, values)}{source} "
        f"WHERE {name}.tenant_id = $1 AND {name}.site_id = $2 AND {name}.{spec.key} = {marks[spec.key]} "
        f"AND {_visible(of)}{own} AND ({version}::bigint IS NULL OR {name}.version = {version}) {returning}",
    )
    if not spec.bound_to:
        return statements
    held = session.format(session_id=marks[SESSION_ID], incarnation=marks[INCARNATION])
    return PutStatements(
        *(f"WITH s AS MATERIALIZED ({held}), p AS ({sql}) SELECT p.* FROM s LEFT JOIN p ON TRUE" for sql in statements)
    )


def _changes(spec: RecordSpec, values: Mapping[str, str]) -> str:
    """The SET clause of an update with these field values."""
    name = spec.collection
    changed = [
        f"{field} = greatest({name}.{field}, {value})" if field in spec.monotonic else f"{field} = {value}"
        for field, value in values.items()
        if field != spec.identity
    ]
    return ", ".join([*changed, f"version = {name}.version + 1", "updated_at = $4", "keep_until = $5"])
