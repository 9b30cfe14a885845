"""The documents contract on SQLite: a table per record type, a column per field."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import apsw

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Page, Stored
from wenmai.stores.fields import MANY, check_filters, check_key, check_range
from wenmai.stores.identity import as_changed, as_created, bound, kept_fields, session_named_by
from wenmai.stores.records import RECORDS, Record, Session
from wenmai.stores.sql_columns import Column, columns_of, make_cursor, parse_cursor
from wenmai.stores.sqlite.lanes import Lanes, fetch
from wenmai.stores.sqlite.purging import purge
from wenmai.stores.sqlite.schema import SQL_TYPES
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500


class _Table(NamedTuple):
    """The statements of one record type."""

    columns: list[Column]
    select: str
    find: str
    find_own: str
    insert: str
    update: str


@cache
def _table(of: type[Record]) -> _Table:
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    names = ", ".join(column.name for column in columns)
    marks = ", ".join("?" * len(columns))
    changes = ", ".join(f"{column.name} = ?" for column in columns)
    kept = "".join(f", {field}" for field in kept_fields(spec))
    hangs_on = ", session_id, incarnation" if spec.bound_to else ""
    find = (
        f"SELECT row, version, created_at, user_id, keep_until{kept}{hangs_on} FROM {spec.collection} "
        f"WHERE tenant_id = ? AND site_id = ? AND {spec.key} = ?"
    )
    return _Table(
        columns,
        f"SELECT {names}, version, user_id, created_at, updated_at FROM {spec.collection}",
        find,
        f"{find} AND user_id = ?",
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
        check_owner(scope, *keys)
        table, spec = _table(of), of.spec
        now = to_micros(self._clock())
        sql = (
            f"{table.select} WHERE tenant_id = ? AND site_id = ? AND {spec.key} IN ({', '.join('?' * len(keys))}) "
            f"AND (? OR user_id = ?) AND (keep_until IS NULL OR keep_until > ?){_reachable(of)}"
        )
        bindings = (scope.tenant_id, scope.site_id, *keys, spec.shared, scope.user_id, now, *_moment(of, now))
        rows = await self._lanes.read(lambda connection: fetch(connection, sql, bindings))
        found = (_stored(of, table, row) for row in rows)
        return {stored.record.key: stored for stored in found}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        check_owner(scope)
        check_key(record.spec.key, record.key)
        check_record(record, keep_until)
        now = self._clock()
        return await self._lanes.write(lambda connection: _put(connection, scope, record, expected, keep_until, now))

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        check_owner(scope, key)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> bool:
            found = _find(connection, scope, of, key, now, own=not of.spec.shared)
            if found is None or found.over:
                return False
            if identity is not None and found.kept(of)[of.spec.identity] != identity:
                return False
            if expected is not None and found.version != expected:
                raise VersionConflict(of.spec.collection, key, expected=expected)
            connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
            return True

        deleted = await self._lanes.write(work)
        if of is Session:
            await self._lanes.write_in_slices(purge)
        return deleted

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
        bindings.extend(_moment(of, bindings[2]))
        sql = (
            f"{table.select} WHERE {' AND '.join(conditions)}{_reachable(of)} "
            f"ORDER BY created_at DESC, {spec.key} DESC LIMIT {limit + 1}"
        )
        rows = await self._lanes.read(lambda connection: fetch(connection, sql, bindings))
        items = [_stored(of, table, row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items, make_cursor(items[-1]) if more else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`."""
        now, removed = to_micros(self._clock()), 0
        for record in RECORDS:
            removed += await self._lanes.write_in_slices(partial(_sweep, record, now))
        await self._lanes.write_in_slices(purge)
        return removed


def _sweep(of: type[Record], now: int, connection: apsw.Connection, most: int) -> int:
    """Remove at most so many records that are past their end."""
    table = of.spec.collection
    ended = f"SELECT row FROM {table} WHERE keep_until <= ? LIMIT ?"
    connection.execute(f"DELETE FROM {table} WHERE row IN ({ended})", (now, most))
    return connection.changes()


def _reachable(of: type[Record]) -> str:
    """The condition that the session which a record hangs on is there; its parameter is :func:`_moment`."""
    if not of.spec.bound_to:
        return ""
    name = of.spec.collection
    return (
        f" AND ({name}.session_id = '' OR EXISTS (SELECT 1 FROM conversations c WHERE c.tenant_id = {name}.tenant_id "
        f"AND c.site_id = {name}.site_id AND c.session_id = {name}.session_id AND c.incarnation = {name}.incarnation "
        "AND (c.keep_until IS NULL OR c.keep_until > ?)))"
    )


def _moment(of: type[Record], now: int) -> tuple[int, ...]:
    return (now,) if of.spec.bound_to else ()


class _Found(NamedTuple):
    """What stands under a key.

    Attributes:
        over: it is past its end, or hangs on a session that is gone.
        more: the values of the fields that the statement names besides.
    """

    row: int
    version: int
    created_at: int
    user_id: str
    visible: bool
    over: bool
    more: Sequence[Any]

    def kept(self, of: type[Record]) -> dict[str, Any]:
        """Its :func:`kept_fields`, decoded."""
        fields = kept_fields(of.spec)
        decode = {column.name: column.decode for column in _table(of).columns if column.name in fields}
        return {field: decode[field](value) for field, value in zip(fields, self.more, strict=False)}


def _find(
    connection: apsw.Connection, scope: Scope, of: type[Record], key: str, now: int, *, own: bool = False
) -> _Found | None:
    """What stands under the key; with ``own`` a foreign record takes as long as none."""
    table = _table(of)
    place = (scope.tenant_id, scope.site_id, key)
    rows = fetch(connection, table.find_own, (*place, scope.user_id)) if own else fetch(connection, table.find, place)
    if not rows:
        return None
    row, version, created_at, user_id, keep_until, *more = rows[0]
    over = keep_until is not None and keep_until <= now
    if of.spec.bound_to and not over:
        session_id, incarnation = more
        over = bool(session_id) and _incarnation(connection, scope, session_id, now) != (user_id, incarnation)
    return _Found(row, version, created_at, user_id, of.spec.shared or user_id == scope.user_id, over, more)


def _incarnation(connection: apsw.Connection, scope: Scope, session_id: str, now: int) -> tuple[str, str] | None:
    """The owner and the incarnation of the session that has the id now."""
    rows = fetch(
        connection,
        "SELECT user_id, incarnation FROM conversations WHERE tenant_id = ? AND site_id = ? AND session_id = ? "
        "AND (keep_until IS NULL OR keep_until > ?)",
        (scope.tenant_id, scope.site_id, session_id, now),
    )
    return rows[0] if rows else None


def _hung(connection: apsw.Connection, scope: Scope, record: R, now: int) -> R:
    """The record as it hangs on its session."""
    named = session_named_by(record)
    if named is None:
        return record
    session_id, incarnation = named
    found = _incarnation(connection, scope, session_id, now)
    if found is None or found[0] != scope.user_id or incarnation not in ("", found[1]):
        raise SessionNotFound(session_id)
    return bound(record, found[1])


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
    record = _hung(connection, scope, record, moment)
    found = _find(connection, scope, of, record.key, moment)
    there = found if found is not None and not found.over else None
    if there is not None and not there.visible:
        raise VersionConflict(of.spec.collection, record.key, expected=expected or 0)
    if expected is not None and expected != (there.version if there else 0):
        raise VersionConflict(of.spec.collection, record.key, expected=expected)
    if there is None:
        record = as_created(record, expected=expected)
    else:
        record = as_changed(record, there.kept(of), expected=expected)
    values = [column.encode(getattr(record, column.name)) for column in table.columns]
    if there is None:
        if found is not None:
            connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
        connection.execute(table.insert, (*scope, *values, moment, moment, end))
        return Stored(record, 1, scope.user_id, now, now)
    connection.execute(table.update, (*values, there.version + 1, moment, end, there.row))
    return Stored(record, there.version + 1, there.user_id, from_micros(there.created_at), now)
