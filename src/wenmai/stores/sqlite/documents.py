"""The documents contract on SQLite: a table per record type, a column per field."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, TypeVar

import apsw

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Page, Stored
from wenmai.stores.fields import MANY, check_filters, check_key, check_range
from wenmai.stores.records import RECORDS, Record
from wenmai.stores.sql_columns import Column, columns_of, make_cursor, parse_cursor
from wenmai.stores.sqlite.lanes import Lanes, fetch
from wenmai.stores.sqlite.schema import SQL_TYPES

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500


class _Table(NamedTuple):
    """The statements of one record type."""

    columns: list[Column]
    select: str
    insert: str
    update: str


@cache
def _table(of: type[Record]) -> _Table:
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    names = ", ".join(column.name for column in columns)
    marks = ", ".join("?" * len(columns))
    changes = ", ".join(f"{column.name} = ?" for column in columns)
    return _Table(
        columns,
        f"SELECT {names}, version, user_id, created_at, updated_at FROM {spec.collection}",
        f"INSERT INTO {spec.collection} (tenant_id, site_id, user_id, {names}, version, created_at, updated_at, "
        f"keep_until) VALUES (?, ?, ?, {marks}, 1, ?, ?, ?)",
        f"UPDATE {spec.collection} SET {changes}, version = ?, updated_at = ?, keep_until = ? WHERE row = ?",
    )


def _stored(of: type[R], table: _Table, row: tuple[Any, ...]) -> Stored[R]:
    fields = {column.name: column.decode(value) for column, value in zip(table.columns, row, strict=False)}
    version, user_id, created, updated = row[len(table.columns) :]
    return Stored(of(**fields), version, user_id, from_micros(created), from_micros(updated))


class SqliteDocuments:
    """See :class:`wenmai.stores.base.Documents`."""

    def __init__(self, lanes: Lanes, clock: Clock) -> None:
        self._lanes = lanes
        self._clock = clock

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.base.Documents.get`."""
        return (await self.get_many(scope, of, [key])).get(key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.base.Documents.get_many`."""
        check_range("keys", len(keys), 0, MANY)
        table, spec = _table(of), of.spec
        now = to_micros(self._clock())
        sql = (
            f"{table.select} WHERE tenant_id = ? AND site_id = ? AND {spec.key} IN ({', '.join('?' * len(keys))}) "
            "AND (? OR user_id = ?) AND (keep_until IS NULL OR keep_until > ?)"
        )
        bindings = (scope.tenant_id, scope.site_id, *keys, spec.shared, scope.user_id, now)
        rows = await self._lanes.read(lambda connection: fetch(connection, sql, bindings))
        found = (_stored(of, table, row) for row in rows)
        return {stored.record.key: stored for stored in found}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        check_key(record.spec.key, record.key)
        now = self._clock()
        return await self._lanes.write(lambda connection: _put(connection, scope, record, expected, keep_until, now))

    async def delete(self, scope: Scope, of: type[R], key: str, *, expected: int | None = None) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> bool:
            found = _find(connection, scope, of, key, now)
            if found is None or not found.visible:
                return False
            if expected is not None and found.version != expected:
                raise VersionConflict(of.spec.collection, key, expected=expected)
            connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
            return not found.ended

        return await self._lanes.write(work)

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
        spec, table = of.spec, _table(of)
        conditions = ["tenant_id = ?", "site_id = ?", "(keep_until IS NULL OR keep_until > ?)"]
        bindings: list[Any] = [scope.tenant_id, scope.site_id, to_micros(self._clock())]
        if not spec.shared:
            conditions.append("user_id = ?")
            bindings.append(scope.user_id)
        for field, value in check_filters(of, where).items():
            conditions.append(f"{field} = ?")
            bindings.append(value)
        if cursor is not None:
            conditions.append(f"(created_at, {spec.key}) < (?, ?)")
            bindings.extend(parse_cursor(cursor))
        sql = (
            f"{table.select} WHERE {' AND '.join(conditions)} "
            f"ORDER BY created_at DESC, {spec.key} DESC LIMIT {limit + 1}"
        )
        rows = await self._lanes.read(lambda connection: fetch(connection, sql, bindings))
        items = [_stored(of, table, row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items, make_cursor(items[-1]) if more else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`."""
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> int:
            removed = 0
            for record in RECORDS:
                connection.execute(f"DELETE FROM {record.spec.collection} WHERE keep_until <= ?", (now,))
                removed += connection.changes()
            return removed

        return await self._lanes.write(work)


class _Found(NamedTuple):
    row: int
    version: int
    created_at: int
    user_id: str
    visible: bool
    ended: bool


def _find(connection: apsw.Connection, scope: Scope, of: type[Record], key: str, now: int) -> _Found | None:
    rows = fetch(
        connection,
        f"SELECT row, version, created_at, user_id, keep_until FROM {of.spec.collection} "
        f"WHERE tenant_id = ? AND site_id = ? AND {of.spec.key} = ?",
        (scope.tenant_id, scope.site_id, key),
    )
    if not rows:
        return None
    row, version, created_at, user_id, keep_until = rows[0]
    visible = of.spec.shared or user_id == scope.user_id
    return _Found(row, version, created_at, user_id, visible, keep_until is not None and keep_until <= now)


def _put(
    connection: apsw.Connection,
    scope: Scope,
    record: R,
    expected: int | None,
    keep_until: datetime | None,
    now: datetime,
) -> Stored[R]:
    of = type(record)
    table, moment = _table(of), to_micros(now)
    end = None if keep_until is None else to_micros(keep_until)
    values = [column.encode(getattr(record, column.name)) for column in table.columns]
    found = _find(connection, scope, of, record.key, moment)
    if found is not None and found.ended:
        connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
        found = None
    stored_version = found.version if found else 0
    if found is not None and not found.visible:
        raise VersionConflict(of.spec.collection, record.key, expected=expected or 0)
    if expected is not None and expected != stored_version:
        raise VersionConflict(of.spec.collection, record.key, expected=expected)
    if found is None:
        connection.execute(table.insert, (*scope, *values, moment, moment, end))
        return Stored(record, 1, scope.user_id, now, now)
    connection.execute(table.update, (*values, found.version + 1, moment, end, found.row))
    return Stored(record, found.version + 1, found.user_id, from_micros(found.created_at), now)
