"""The documents contract on PostgreSQL: one statement per call."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from wenmai.clock import Clock, from_micros
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.identity import as_created, bound_session
from wenmai.stores.postgresql.database import Database, Row, unescape
from wenmai.stores.postgresql.purging import purge
from wenmai.stores.postgresql.tables import INDEXED_PREFIX, LISTING_HINT, SWEEP_BATCH, Table, by_key, table_of
from wenmai.stores.records import RECORDS, Record, Session
from wenmai.stores.sql.columns import make_cursor, parse_cursor
from wenmai.stores.structs import Page, Stored
from wenmai.stores.validation import MAX_KEYS, check_filters, check_key, check_range
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500


def _stored(of: type[R], table: Table, row: Row) -> Stored[R]:
    fields = {column.field: column.decode(value) for column, value in zip(table.columns, row, strict=False)}
    version, user_id, created_at, updated_at = row[len(table.columns) :]
    return Stored(of(**fields), version, unescape(user_id), created_at, updated_at)


class PostgresqlDocuments:
    """See :class:`wenmai.stores.contracts.Documents`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        return (await self.get_many(scope, of, [key])).get(key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        check_range("keys", len(keys), 0, MAX_KEYS)
        check_owner(scope, *keys)
        table = table_of(of)
        rows = await self._database.fetch(by_key(of), *scope, self._clock(), list(keys))
        found = (_stored(of, table, row) for row in rows)
        return {stored.record.key: stored for stored in found}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        check_owner(scope)
        check_key(record.spec.key, record.key)
        check_record(record, keep_until)
        table, now = table_of(type(record)), self._clock()
        identity = record.spec.identity
        is_change = bool(expected or (expected is None and identity and getattr(record, identity)))
        if not is_change:
            record = as_created(record, expected=expected)
        arguments = [*scope, now, keep_until]
        arguments += [column.encode(getattr(record, column.field)) for column in table.columns]
        statements = table.unbound if bound_session(record) is None else table.bound
        if is_change:
            row = await self._write(record, statements.update, *arguments, expected)
        else:
            sql = statements.upsert if expected is None else statements.insert
            row = await self._write(record, sql, *arguments)
            if row is None:
                deleted = await self._database.fetch(table.delete_stale, *scope, now, record.key)
                # Retry even if nothing was deleted: another process may just have done so.
                row = await self._write(record, sql, *arguments)
                if deleted:
                    await self._purge(type(record))
        if row is None:
            raise VersionConflict(record.spec.collection, record.key, expected=expected or 0)
        version, user_id, created_at, updated_at, *store_assigned = row
        fields = {
            column.field: column.decode(value)
            for column, value in zip(table.store_assigned, store_assigned, strict=True)
        }
        stored = replace(record, **fields) if fields else record
        return Stored(stored, version, unescape(user_id), created_at, updated_at)

    async def _write(self, record: Record, sql: str, *arguments: Any) -> Row | None:
        """Run a statement of a put; return the written row, or None on a version conflict.

        Raises:
            SessionNotFound: the session that the record names does not exist.
        """
        rows = await self._database.fetch(sql, *arguments)
        session = bound_session(record)
        if session is not None and not rows:
            raise SessionNotFound(session[0])
        return rows[0] if rows and rows[0]["version"] is not None else None

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
        check_owner(scope, key)
        if await self._database.fetch(table_of(of).delete, *scope, self._clock(), key, expected, identity):
            await self._purge(of)
            return True
        stored = None if expected is None else await self.get(scope, of, key)
        if stored is not None and identity in (None, getattr(stored.record, of.spec.identity, None)):
            raise VersionConflict(of.spec.collection, key, expected=expected or 0)
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
        """See :meth:`wenmai.stores.contracts.Documents.list`."""
        check_range("limit", limit, 1, LIST_LIMIT)
        key, table = of.spec.key, table_of(of)
        conditions = [table.select, LISTING_HINT]
        arguments: list[Any] = [*scope, self._clock()]
        for field, value in check_filters(of, where).items():
            arguments.append(value)
            mark = f"${len(arguments)}"
            conditions.append(f"{field} = {mark} AND left({field}, {INDEXED_PREFIX}) = left({mark}, {INDEXED_PREFIX})")
        if cursor is not None:
            arguments += _parse_cursor(cursor)
            conditions.append(f"(created_at, {key}) < (${len(arguments) - 1}, ${len(arguments)})")
        sql = f"{' AND '.join(conditions)} ORDER BY created_at DESC, {key} DESC LIMIT {limit + 1}"
        rows = await self._database.fetch(sql, *arguments)
        items = [_stored(of, table, row) for row in rows[:limit]]
        return Page(items, make_cursor(items[-1]) if len(rows) > limit else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`."""
        now, removed = self._clock(), 0
        for record in RECORDS:
            swept = SWEEP_BATCH
            while swept == SWEEP_BATCH:
                swept = len(await self._database.fetch(table_of(record).sweep, now))
                removed += swept
        await purge(self._database)
        return removed

    async def _purge(self, of: type[Record]) -> None:
        if of is Session:
            await purge(self._database)


def _parse_cursor(cursor: str) -> tuple[datetime, str]:
    micros, key = parse_cursor(cursor)
    try:
        return from_micros(micros), key
    except (ValueError, OverflowError) as problem:
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page") from problem
