"""The documents contract on SQLite: a table per record type, a column per field."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import apsw

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.identity import (
    INCARNATION,
    SESSION_ID,
    as_changed,
    as_created,
    bind_to,
    bound_session,
    preserved_fields,
)
from wenmai.stores.records import RECORDS, Record, Session
from wenmai.stores.sql.columns import Column, Convert, columns_of, make_cursor, parse_cursor, same
from wenmai.stores.sqlite.connection_threads import ConnectionThreads, fetch
from wenmai.stores.sqlite.purging import purge
from wenmai.stores.sqlite.schema import SQL_TYPES
from wenmai.stores.structs import Page, Stored
from wenmai.stores.validation import MAX_KEYS, check_filters, check_key, check_range
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500


class _Table(NamedTuple):
    """The SQL statements of one record type."""

    columns: list[Column]
    fields: list[str]
    decoders: list[tuple[int, str, Convert]]
    """Position, field and decoder of the columns whose values are not those of the fields."""
    select: str
    find: str
    find_own: str
    insert: str
    update: str
    rebind: str
    changeable: list[Column]
    """The columns that ``update`` sets: SQLite writes the indexes of every column that is set, changed or not."""


@cache
def _table(of: type[Record]) -> _Table:
    spec, columns = of.spec, columns_of(of, SQL_TYPES)
    names = ", ".join(column.name for column in columns)
    marks = ", ".join("?" * len(columns))
    fixed = (spec.key, SESSION_ID, INCARNATION) if spec.bound_to else (spec.key,)
    changeable = [column for column in columns if column.name not in fixed]
    changes = "".join(f"{column.name} = ?, " for column in changeable)
    preserved = "".join(f", {field}" for field in preserved_fields(spec))
    session_columns = ", session_id, incarnation" if spec.bound_to else ""
    find = (
        f"SELECT row, version, created_at, user_id, keep_until{preserved}{session_columns} FROM {spec.collection} "
        f"WHERE tenant_id = ? AND site_id = ? AND {spec.key} = ?"
    )
    return _Table(
        columns,
        [column.field for column in columns],
        [(at, column.field, column.decode) for at, column in enumerate(columns) if column.decode is not same],
        f"SELECT {names}, version, user_id, created_at, updated_at FROM {spec.collection}",
        find,
        f"{find} AND user_id = ?",
        f"INSERT INTO {spec.collection} (tenant_id, site_id, user_id, {names}, version, created_at, updated_at, "
        f"keep_until) VALUES (?, ?, ?, {marks}, 1, ?, ?, ?)",
        f"UPDATE {spec.collection} SET {changes}version = ?, updated_at = ?, keep_until = ? WHERE row = ?",
        f"UPDATE {spec.collection} SET {SESSION_ID} = ?, {INCARNATION} = ? WHERE row = ?",
        changeable,
    )


@cache
def _find_many(of: type[Record], keys: int) -> str:
    return (
        f"{_table(of).select} WHERE tenant_id = ? AND site_id = ? AND {of.spec.key} IN ({', '.join('?' * keys)}) "
        f"AND (? OR user_id = ?) AND (keep_until IS NULL OR keep_until > ?){_reachable(of)}"
    )


def _stored(of: type[R], table: _Table, row: tuple[Any, ...]) -> Stored[R]:
    fields = dict(zip(table.fields, row, strict=False))
    for at, field, decode in table.decoders:
        fields[field] = decode(row[at])
    version, user_id, created, updated = row[len(table.columns) :]
    created_at = from_micros(created)
    updated_at = created_at if updated == created else from_micros(updated)
    return Stored(of(**fields), version, user_id, created_at, updated_at)


class SqliteDocuments:
    """See :class:`wenmai.stores.contracts.Documents`."""

    def __init__(self, connections: ConnectionThreads, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        return (await self.get_many(scope, of, [key])).get(key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        check_range("keys", len(keys), 0, MAX_KEYS)
        check_owner(scope, *keys)
        table, sql = _table(of), _find_many(of, len(keys))
        now = to_micros(self._clock())
        bindings = (
            scope.tenant_id,
            scope.site_id,
            *keys,
            of.spec.shared,
            scope.user_id,
            now,
            *_reachable_bindings(of, now),
        )
        rows = await self._connections.read(lambda connection: fetch(connection, sql, bindings))
        found = (_stored(of, table, row) for row in rows)
        return {stored.record.key: stored for stored in found}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        check_owner(scope)
        check_key(record.spec.key, record.key)
        check_record(record, keep_until)
        now = self._clock()
        return await self._connections.write(
            lambda connection: _put(connection, scope, record, expected, keep_until, now)
        )

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
        check_owner(scope, key)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> bool:
            found = _find(connection, scope, of, key, now, own=not of.spec.shared)
            if found is None or found.expired:
                return False
            if identity is not None and found.preserved(of)[of.spec.identity] != identity:
                return False
            if expected is not None and found.version != expected:
                raise VersionConflict(of.spec.collection, key, expected=expected)
            connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
            return True

        deleted = await self._connections.write(work)
        if of is Session:
            await self._connections.write_in_batches(purge)
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
        """See :meth:`wenmai.stores.contracts.Documents.list`."""
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
        bindings.extend(_reachable_bindings(of, bindings[2]))
        sql = (
            f"{table.select} WHERE {' AND '.join(conditions)}{_reachable(of)} "
            f"ORDER BY created_at DESC, {spec.key} DESC LIMIT {limit + 1}"
        )
        rows = await self._connections.read(lambda connection: fetch(connection, sql, bindings))
        items = [_stored(of, table, row) for row in rows[:limit]]
        more = len(rows) > limit
        return Page(items, make_cursor(items[-1]) if more else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`."""
        now, removed = to_micros(self._clock()), 0
        for record in RECORDS:
            removed += await self._connections.write_in_batches(partial(_sweep, record, now))
        await self._connections.write_in_batches(purge)
        return removed


def _sweep(of: type[Record], now: int, connection: apsw.Connection, limit: int) -> int:
    """Remove at most ``limit`` expired records."""
    table = of.spec.collection
    ended = f"SELECT row FROM {table} WHERE keep_until <= ? LIMIT ?"
    connection.execute(f"DELETE FROM {table} WHERE row IN ({ended})", (now, limit))
    return connection.changes()


def _reachable(of: type[Record]) -> str:
    """SQL condition that the session of a bound record exists; its binding is :func:`_reachable_bindings`."""
    if not of.spec.bound_to:
        return ""
    name = of.spec.collection
    return (
        f" AND ({name}.session_id = '' OR EXISTS (SELECT 1 FROM conversations c WHERE c.tenant_id = {name}.tenant_id "
        f"AND c.site_id = {name}.site_id AND c.session_id = {name}.session_id AND c.incarnation = {name}.incarnation "
        "AND (c.keep_until IS NULL OR c.keep_until > ?)))"
    )


def _reachable_bindings(of: type[Record], now: int) -> tuple[int, ...]:
    return (now,) if of.spec.bound_to else ()


class _Found(NamedTuple):
    """The row under a key.

    Attributes:
        expired: past its ``keep_until``, or bound to a session that no longer exists.
        extra: the values of the statement's additional columns: preserved fields, and the session of a bound record.
    """

    row: int
    version: int
    created_at: int
    user_id: str
    visible: bool
    expired: bool
    extra: Sequence[Any]

    def preserved(self, of: type[Record]) -> dict[str, Any]:
        """Its :func:`preserved_fields`, decoded."""
        fields = preserved_fields(of.spec)
        decode = {column.field: column.decode for column in _table(of).columns if column.name in fields}
        return {field: decode[field](value) for field, value in zip(fields, self.extra, strict=False)}

    @property
    def session(self) -> tuple[str, str]:
        """Id and incarnation of the session that a bound record belongs to."""
        session_id, incarnation = self.extra[-2:]
        return session_id, incarnation


def _find(
    connection: apsw.Connection,
    scope: Scope,
    of: type[Record],
    key: str,
    now: int,
    *,
    own: bool = False,
    session: tuple[str, str] | None = None,
) -> _Found | None:
    """The row under the key.

    Args:
        connection: reads it.
        scope: the owner.
        of: the record type.
        key: of the record.
        now: in microseconds.
        own: a foreign record takes as long as an absent one.
        session: id and incarnation of one that the scope has, which need not be looked up again.
    """
    table = _table(of)
    place = (scope.tenant_id, scope.site_id, key)
    rows = fetch(connection, table.find_own, (*place, scope.user_id)) if own else fetch(connection, table.find, place)
    if not rows:
        return None
    row, version, created_at, user_id, keep_until, *extra = rows[0]
    expired = keep_until is not None and keep_until <= now
    visible = of.spec.shared or user_id == scope.user_id
    found = _Found(row, version, created_at, user_id, visible, expired, extra)
    if not of.spec.bound_to or expired or (visible and found.session == session):
        return found
    session_id, incarnation = found.session
    gone = bool(session_id) and _incarnation(connection, scope, session_id, now) != (user_id, incarnation)
    return found._replace(expired=gone)


def _incarnation(connection: apsw.Connection, scope: Scope, session_id: str, now: int) -> tuple[str, str] | None:
    """Owner and incarnation of the session that has the id now."""
    rows = fetch(
        connection,
        "SELECT user_id, incarnation FROM conversations WHERE tenant_id = ? AND site_id = ? AND session_id = ? "
        "AND (keep_until IS NULL OR keep_until > ?)",
        (scope.tenant_id, scope.site_id, session_id, now),
    )
    return rows[0] if rows else None


def _bound_to_session(connection: apsw.Connection, scope: Scope, record: R, now: int) -> R:
    """The record, bound to the current incarnation of its session."""
    named = bound_session(record)
    if named is None:
        return record
    session_id, incarnation = named
    found = _incarnation(connection, scope, session_id, now)
    if found is None or found[0] != scope.user_id or incarnation not in ("", found[1]):
        raise SessionNotFound(session_id)
    return bind_to(record, found[1])


def _put(
    connection: apsw.Connection,
    scope: Scope,
    record: R,
    expected: int | None,
    keep_until: datetime | None,
    now: datetime,
) -> Stored[R]:
    of = type(record)
    table, now_micros = _table(of), to_micros(now)
    end = None if keep_until is None else to_micros(keep_until)
    record = _bound_to_session(connection, scope, record, now_micros)
    session = bound_session(record)
    found = _find(connection, scope, of, record.key, now_micros, session=session)
    current = found if found is not None and not found.expired else None
    if current is not None and not current.visible:
        raise VersionConflict(of.spec.collection, record.key, expected=expected or 0)
    if expected is not None and expected != (current.version if current else 0):
        raise VersionConflict(of.spec.collection, record.key, expected=expected)
    if current is None:
        record = as_created(record, expected=expected)
    else:
        record = as_changed(record, current.preserved(of), expected=expected)
    if current is None:
        if found is not None:
            connection.execute(f"DELETE FROM {of.spec.collection} WHERE row = ?", (found.row,))
        values = [column.encode(getattr(record, column.field)) for column in table.columns]
        connection.execute(table.insert, (*scope, *values, now_micros, now_micros, end))
        return Stored(record, 1, scope.user_id, now, now)
    values = [column.encode(getattr(record, column.field)) for column in table.changeable]
    connection.execute(table.update, (*values, current.version + 1, now_micros, end, current.row))
    if of.spec.bound_to:
        named = getattr(record, SESSION_ID), getattr(record, INCARNATION)
        if current.session != named:
            connection.execute(table.rebind, (*named, current.row))
    return Stored(record, current.version + 1, current.user_id, from_micros(current.created_at), now)
