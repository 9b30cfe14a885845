"""The statements of a record type: a table each, a column per field, whatever a call needs in one statement.

A record that is bound to a session is written by a statement that holds the session's row, so that a delete of the
session comes before it, and it is refused, or after it, and removes it.
"""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from wenmai.stores.identity import INCARNATION, SESSION_ID, kept_fields
from wenmai.stores.postgresql.database import unescape
from wenmai.stores.records import Record, RecordSpec
from wenmai.stores.sql_columns import Column, Kind, SqlType, columns_of, same

SWEPT_AT_ONCE = 1_000
"""Rows that a sweep removes in one statement, so that none takes long."""

INDEXED = 64
"""Characters of a filter that its index holds (see the tables' definition)."""

LISTED = "row_id > 0"
"""True of every row; a statement that says so may be planned with the indexes of listings, any other may not."""

SQL_TYPES: Mapping[Kind, SqlType] = {
    "text": SqlType("text", same, unescape),
    "boolean": SqlType("boolean", same, same),
    "integer": SqlType("bigint", same, same),
    "real": SqlType("double precision", same, same),
    "moment": SqlType("timestamp with time zone", same, same),
    "json": SqlType("json", same, unescape),
}
"""How PostgreSQL keeps the fields of records; texts are escaped on their way there where they are bound."""

_KNOWN = ("version", "user_id", "created_at", "updated_at")


class Writing(NamedTuple):
    """The statements of a put: scope, moment, ``keep_until``, the fields, and for the update the version or none.

    Each gives a row of version, owner, moments and the :attr:`Table.decided` fields. Without it there is a conflict; of
    a record bound to a session the conflict is a row of NULLs, and no row means that there is no such session.
    """

    insert: str
    upsert: str
    update: str


class Table(NamedTuple):
    """The statements of a record type; all but the sweep take the scope as ``$1`` to ``$3`` and now as ``$4``.

    Attributes:
        decided: the fields of which the store, and not the caller alone, decides.
        free: of a record bound to a session, while it names none; of any other.
        bound: of a record that names a session.
        forget_gone: removes a record that is past its end, or hangs on a session that is gone, whoever had it.
    """

    columns: list[Column]
    decided: list[Column]
    select: str
    free: Writing
    bound: Writing
    delete: str
    forget_gone: str
    sweep: str


@cache
def table_of(of: type[Record]) -> Table:
    """The statements of the record type."""
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    name = spec.collection
    at_key = f"{name}.tenant_id = $1 AND {name}.site_id = $2 AND {name}.{spec.key} = $5"
    over = f"({name}.keep_until <= $4 OR NOT {_hangs(of)})" if spec.bound_to else f"{name}.keep_until <= $4"
    return Table(
        columns=columns,
        decided=[column for field in _decided(spec) for column in columns if column.name == field],
        select=f"SELECT {', '.join((*(column.name for column in columns), *_KNOWN))} FROM {name} "
        f"WHERE tenant_id = $1 AND site_id = $2 AND {_seen(of)}",
        free=_writing(of, columns, "SELECT {incarnation} AS incarnation"),
        bound=_writing(of, columns, _SESSION),
        delete=f"DELETE FROM {name} WHERE {at_key} AND {_seen(of)} AND ($6::bigint IS NULL OR version = $6) "
        f"AND ($7::text IS NULL OR {spec.identity or 'NULL'} = $7) RETURNING 1",
        # The owner is named for nothing but that all statements have the same arguments.
        forget_gone=f"DELETE FROM {name} WHERE {at_key} AND {over} AND $3::text IS NOT NULL RETURNING 1",
        sweep=f"DELETE FROM {name} WHERE row_id IN (SELECT row_id FROM {name} WHERE keep_until <= $1 "
        f"LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED) RETURNING 1",
    )


def by_key(of: type[Record]) -> str:
    """The statement that reads the records of some keys: scope, moment, keys."""
    return f"{table_of(of).select} AND {of.spec.key} = ANY($5::text[])"


_SESSION = """
SELECT c.incarnation FROM conversations c
WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = {session_id}
  AND (c.keep_until IS NULL OR c.keep_until > $4) AND ({incarnation} = '' OR c.incarnation = {incarnation})
FOR KEY SHARE"""


def _decided(spec: RecordSpec) -> tuple[str, ...]:
    return (*kept_fields(spec), INCARNATION) if spec.bound_to else kept_fields(spec)


def _hangs(of: type[Record]) -> str:
    """The condition that the session on which the record hangs is there, looked up by its key for each record."""
    name = of.spec.collection
    return (
        f"({name}.session_id = '' OR coalesce({name}.incarnation = (SELECT c.incarnation FROM conversations c "
        f"WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.session_id = {name}.session_id "
        "AND (c.keep_until IS NULL OR c.keep_until > $4)), FALSE))"
    )


def _seen(of: type[Record]) -> str:
    """The condition that the scope sees the record now."""
    name = of.spec.collection
    # A shared record is everybody's; the statement names the user all the same, so that all have the same arguments.
    seen = (
        f"({str(of.spec.shared).upper()} OR {name}.user_id = $3) "
        f"AND ({name}.keep_until IS NULL OR {name}.keep_until > $4)"
    )
    return f"{seen} AND {_hangs(of)}" if of.spec.bound_to else seen


def _writing(of: type[Record], columns: list[Column], session: str) -> Writing:
    """The statements of a put; ``session`` gives the incarnation that a record bound to a session hangs on."""
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
    returning = f"RETURNING {', '.join(f'{name}.{field}' for field in (*_KNOWN, *_decided(spec)))}"
    version = f"${6 + len(columns)}"
    statements = Writing(
        insert=f"{insert} DO NOTHING {returning}",
        upsert=f"{insert} DO UPDATE SET {replaced} WHERE {_seen(of)} {returning}",
        update=f"UPDATE {name} SET {_changes(spec, values)}{source} "
        f"WHERE {name}.tenant_id = $1 AND {name}.site_id = $2 AND {name}.{spec.key} = {marks[spec.key]} "
        f"AND {_seen(of)}{own} AND ({version}::bigint IS NULL OR {name}.version = {version}) {returning}",
    )
    if not spec.bound_to:
        return statements
    held = session.format(session_id=marks[SESSION_ID], incarnation=marks[INCARNATION])
    return Writing(
        *(f"WITH s AS MATERIALIZED ({held}), p AS ({sql}) SELECT p.* FROM s LEFT JOIN p ON TRUE" for sql in statements)
    )


def _changes(spec: RecordSpec, values: Mapping[str, str]) -> str:
    """What an update sets, where ``values`` are the new ones of the fields."""
    name = spec.collection
    changed = [
        f"{field} = greatest({name}.{field}, {value})" if field in spec.rising else f"{field} = {value}"
        for field, value in values.items()
        if field != spec.identity
    ]
    return ", ".join([*changed, f"version = {name}.version + 1", "updated_at = $4", "keep_until = $5"])
