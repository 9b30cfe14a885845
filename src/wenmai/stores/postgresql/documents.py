"""The documents contract on PostgreSQL: a table per record type, a column per field, one statement a call."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

from wenmai.clock import Clock, from_micros
from wenmai.errors import InvalidInput, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Page, Stored
from wenmai.stores.fields import MANY, check_filters, check_key, check_range
from wenmai.stores.postgresql.database import Database, Row, unescape
from wenmai.stores.records import RECORDS, Record
from wenmai.stores.sql_columns import Column, Kind, SqlType, columns_of, make_cursor, parse_cursor, same

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500
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

_KNOWN = "version, user_id, created_at, updated_at"


class _Table(NamedTuple):
    """The statements of a record type; all but the last two take the scope as ``$1`` to ``$3`` and now as ``$4``."""

    columns: list[Column]
    select: str
    insert: str
    upsert: str
    update: str
    delete: str
    forget_ended: str
    sweep: str


@cache
def _table(of: type[Record]) -> _Table:
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    name, fields = spec.collection, [column.name for column in columns]
    marks = {field: f"${number}" for number, field in enumerate(fields, start=6)}
    changes = ", ".join(f"{field} = {mark}" for field, mark in marks.items())
    changes += f", version = {name}.version + 1, updated_at = $4, keep_until = $5"
    # A shared record is everybody's; the statement names the user all the same, so that all have the same arguments.
    seen = (
        f"({str(spec.shared).upper()} OR {name}.user_id = $3) AND ({name}.keep_until IS NULL OR {name}.keep_until > $4)"
    )
    insert = (
        f"INSERT INTO {name} (tenant_id, site_id, user_id, version, created_at, updated_at, keep_until, "
        f"{', '.join(fields)}) VALUES ($1, $2, $3, 1, $4, $4, $5, {', '.join(marks.values())}) "
        f"ON CONFLICT (tenant_id, site_id, {spec.key})"
    )
    return _Table(
        columns=columns,
        select=f"SELECT {', '.join(fields)}, {_KNOWN} FROM {name} WHERE tenant_id = $1 AND site_id = $2 AND {seen}",
        insert=f"{insert} DO NOTHING RETURNING {_KNOWN}",
        upsert=f"{insert} DO UPDATE SET {changes} WHERE {seen} RETURNING {_KNOWN}",
        update=f"UPDATE {name} SET {changes} WHERE tenant_id = $1 AND site_id = $2 AND {spec.key} = {marks[spec.key]} "
        f"AND {seen} AND version = ${6 + len(fields)} RETURNING {_KNOWN}",
        delete=f"DELETE FROM {name} WHERE tenant_id = $1 AND site_id = $2 AND {seen} AND {spec.key} = $5 "
        "AND ($6::bigint IS NULL OR version = $6) RETURNING 1",
        forget_ended=f"DELETE FROM {name} WHERE tenant_id = $1 AND site_id = $2 AND {spec.key} = $3 "
        "AND keep_until <= $4 RETURNING 1",
        sweep=f"DELETE FROM {name} WHERE row_id IN (SELECT row_id FROM {name} WHERE keep_until <= $1 "
        f"LIMIT {SWEPT_AT_ONCE} FOR UPDATE SKIP LOCKED) RETURNING 1",
    )


def by_key(of: type[Record]) -> str:
    """The statement that reads the records of some keys: scope, moment, keys."""
    return f"{_table(of).select} AND {of.spec.key} = ANY($5::text[])"


def _stored(of: type[R], table: _Table, row: Row) -> Stored[R]:
    fields = {column.name: column.decode(value) for column, value in zip(table.columns, row, strict=False)}
    version, user_id, created_at, updated_at = row[len(table.columns) :]
    return Stored(of(**fields), version, unescape(user_id), created_at, updated_at)


class PostgresqlDocuments:
    """See :class:`wenmai.stores.base.Documents`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.base.Documents.get`."""
        return (await self.get_many(scope, of, [key])).get(key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.base.Documents.get_many`."""
        check_range("keys", len(keys), 0, MANY)
        table = _table(of)
        rows = await self._database.fetch(by_key(of), *scope, self._clock(), list(keys))
        found = (_stored(of, table, row) for row in rows)
        return {stored.record.key: stored for stored in found}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        check_key(record.spec.key, record.key)
        table, now = _table(type(record)), self._clock()
        arguments = [*scope, now, keep_until]
        arguments += [column.encode(getattr(record, column.name)) for column in table.columns]
        if expected:
            rows = await self._database.fetch(table.update, *arguments, expected)
        else:
            sql = table.upsert if expected is None else table.insert
            rows = await self._database.fetch(sql, *arguments)
            ended = (scope.tenant_id, scope.site_id, record.key, now)
            if not rows and await self._database.fetch(table.forget_ended, *ended):
                rows = await self._database.fetch(sql, *arguments)
        if not rows:
            raise VersionConflict(record.spec.collection, record.key, expected=expected or 0)
        version, user_id, created_at, updated_at = rows[0]
        return Stored(record, version, unescape(user_id), created_at, updated_at)

    async def delete(self, scope: Scope, of: type[R], key: str, *, expected: int | None = None) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        if await self._database.fetch(_table(of).delete, *scope, self._clock(), key, expected):
            return True
        if expected is not None and await self.get(scope, of, key) is not None:
            raise VersionConflict(of.spec.collection, key, expected=expected)
        return False

    async def list(
        self,
        scope: Scope,
        of: type[R],
        *,
        where: Mapping[str, str] | None = None,
        limit: int = 20,
        cursor: str | None = None,
    ) -> Page[R]:
        """See :meth:`wenmai.stores.base.Documents.list`."""
        check_range("limit", limit, 1, LIST_LIMIT)
        key, table = of.spec.key, _table(of)
        conditions = [table.select, LISTED]
        arguments: list[Any] = [*scope, self._clock()]
        for field, value in check_filters(of, where).items():
            arguments.append(value)
            mark = f"${len(arguments)}"
            conditions.append(f"{field} = {mark} AND left({field}, {INDEXED}) = left({mark}, {INDEXED})")
        if cursor is not None:
            arguments += _place_of(cursor)
            conditions.append(f"(created_at, {key}) < (${len(arguments) - 1}, ${len(arguments)})")
        sql = f"{' AND '.join(conditions)} ORDER BY created_at DESC, {key} DESC LIMIT {limit + 1}"
        rows = await self._database.fetch(sql, *arguments)
        items = [_stored(of, table, row) for row in rows[:limit]]
        return Page(items, make_cursor(items[-1]) if len(rows) > limit else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`."""
        now, removed = self._clock(), 0
        for record in RECORDS:
            gone = SWEPT_AT_ONCE
            while gone == SWEPT_AT_ONCE:
                gone = len(await self._database.fetch(_table(record).sweep, now))
                removed += gone
        return removed


def _place_of(cursor: str) -> tuple[datetime, str]:
    micros, key = parse_cursor(cursor)
    try:
        return from_micros(micros), key
    except (ValueError, OverflowError) as problem:
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page") from problem
