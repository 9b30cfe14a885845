"""The documents contract: reads by id, which see every write at once, and writes on condition of what was read."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from wenmai.clock import Clock, to_micros
from wenmai.errors import StoreUnavailable, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.elasticsearch.client import Client, Found, Ref, Write
from wenmai.stores.elasticsearch.indices import RECORD_INDICES, index_of
from wenmai.stores.elasticsearch.retrying import Locks, attempts
from wenmai.stores.elasticsearch.rows import (
    Row,
    filter_term,
    listing_owner,
    make_row,
    record_ref,
    row_of,
    session_ref,
)
from wenmai.stores.elasticsearch.sessions import bound_to_living, purge_session, required_session
from wenmai.stores.identity import as_changed, as_created, bind_to, bound_session, preserved_fields
from wenmai.stores.records import Record, Session
from wenmai.stores.sql.columns import make_cursor, parse_cursor
from wenmai.stores.structs import Page, Stored
from wenmai.stores.validation import MAX_KEYS, check_filters, check_key, check_range
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)
LIST_LIMIT = 500
SWEEP_BATCH = 500

_log = logging.getLogger(__name__)


class ElasticsearchDocuments:
    """See :class:`wenmai.stores.contracts.Documents`."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._locks = Locks()

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        return (await self.get_many(scope, of, [key])).get(key)

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        check_range("keys", len(keys), 0, MAX_KEYS)
        check_owner(scope, *keys)
        found = await self._client.get([record_ref(self._client, scope, of, key) for key in dict.fromkeys(keys)])
        now = self._clock()
        rows = [row for row in map(row_of, found) if row is not None and _is_visible(row, scope, of, now)]
        living = await bound_to_living(self._client, rows, now)
        return {row.key: row.stored(of) for row, lives in zip(rows, living, strict=True) if lives}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        check_owner(scope)
        check_key(record.spec.key, record.key)
        check_record(record, keep_until)
        ref = record_ref(self._client, scope, type(record), record.key)
        async with self._locks.held(ref.id):
            async for _ in attempts(self._client.name):
                row = await self._try_put(scope, record, ref, expected, keep_until)
                if row is not None:
                    return row.stored(type(record))
        raise AssertionError("attempts end with an error")

    async def _try_put(
        self, scope: Scope, record: Record, ref: Ref, expected: int | None, keep_until: datetime | None
    ) -> Row | None:
        """Write the record on condition of what is read now; None if it changed meanwhile."""
        named, now, of = bound_session(record), self._clock(), type(record)
        refs = [ref, session_ref(self._client, scope, named[0])] if named else [ref]
        found, *session = await self._client.get(refs)
        if named:
            record = bind_to(record, required_session(session[0], scope, now, named).incarnation)
        row = await self._if_alive(row_of(found), now)
        if row is None and found is not None and of is Session:
            await purge_session(self._client, ref)
            return None
        mine = row if row is not None and (of.spec.shared or row.user_id == scope.user_id) else None
        if (row is not None and mine is None) or expected not in (None, mine.version if mine else 0):
            raise VersionConflict(of.spec.collection, record.key, expected=expected or 0)
        if mine is None:
            written = make_row(
                self._client, scope, as_created(record, expected=expected), now=now, keep_until=keep_until
            )
        else:
            stored = mine.decoded(of)
            before = {field: getattr(stored, field) for field in preserved_fields(of.spec)}
            changed = as_changed(record, before, expected=expected)
            written = make_row(self._client, scope, changed, now=now, keep_until=keep_until)
            written.version, written.user_id = mine.version + 1, mine.user_id
            written.created_at, written.threads = mine.created_at, mine.threads
        [done] = await self._client.write([Write(ref, written.document(), found)])
        return written if done else None

    async def _if_alive(self, row: Row | None, now: datetime) -> Row | None:
        if row is None or not row.is_alive(now):
            return None
        [living] = await bound_to_living(self._client, [row], now)
        return row if living else None

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
        check_owner(scope, key)
        ref = record_ref(self._client, scope, of, key)
        async with self._locks.held(ref.id):
            async for _ in attempts(self._client.name):
                now = self._clock()
                [found] = await self._client.get([ref])
                row = await self._if_alive(row_of(found), now)
                if row is None or not _is_visible(row, scope, of, now):
                    return False
                if identity is not None and getattr(row.decoded(of), of.spec.identity) != identity:
                    return False
                if expected not in (None, row.version):
                    raise VersionConflict(of.spec.collection, key, expected=expected or 0)
                if await self._remove(ref, row, found):
                    return True
        raise AssertionError("attempts end with an error")

    async def _remove(self, ref: Ref, row: Row, found: Found | None) -> bool:
        """Remove the record if it is unchanged; a session with all that belongs to it."""
        if row.collection != Session.spec.collection:
            return all(await self._client.write([Write(ref, None, found)]))
        row.deleted = True
        if not all(await self._client.write([Write(ref, row.document(), found)])):
            return False
        try:
            await purge_session(self._client, ref)
        except StoreUnavailable as problem:
            _log.warning("parts of a deleted session are still stored, the next sweep removes them: %s", problem)
        return True

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
        check_owner(scope)
        check_range("limit", limit, 1, LIST_LIMIT)
        now = self._clock()
        terms = [filter_term(field, value) for field, value in check_filters(of, where).items()]
        asked: dict[str, Any] = {
            "query": {
                "bool": {
                    "filter": [
                        {"term": {"owner": listing_owner(scope, of)}},
                        *({"term": {"filters": t}} for t in terms),
                    ],
                    "must_not": _gone(now),
                }
            },
            "sort": [{"created_at": "desc"}, {"key": "desc"}],
            "size": limit + 1,
            "track_total_hits": False,
        }
        if cursor is not None:
            asked["search_after"] = parse_cursor(cursor)
        items: list[Stored[R]] = []
        index, fresh = self._client.index(index_of(of)), True
        while len(items) <= limit:
            hits = (await self._client.search(index, asked, fresh=fresh))["hits"]["hits"]
            rows = [row for hit in hits if (row := row_of(Found(hit["_source"], 0, 0, 0))) is not None]
            living = await bound_to_living(self._client, rows, now)
            items += [row.stored(of) for row, lives in zip(rows, living, strict=True) if lives]
            if len(hits) <= limit:
                break
            asked["search_after"], fresh = hits[-1]["sort"], False
        return Page(items[:limit], make_cursor(items[limit - 1]) if len(items) > limit else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`."""
        now, removed = self._clock(), 0
        for name in RECORD_INDICES:
            index = self._client.index(name)
            asked = {
                "query": {"bool": {"should": _gone(now)}},
                "size": SWEEP_BATCH,
                "seq_no_primary_term": True,
                "track_total_hits": False,
            }
            swept = SWEEP_BATCH
            while swept == SWEEP_BATCH:
                hits = (await self._client.search(index, asked, fresh=True))["hits"]["hits"]
                swept = len(hits)
                removed += await self._sweep_hits(hits, now)
        return removed

    async def _sweep_hits(self, hits: Sequence[Any], now: datetime) -> int:
        writes, removed = [], 0
        for hit in hits:
            found = Found(hit["_source"], hit["_seq_no"], hit["_primary_term"], 0)
            row, ref = row_of(found), Ref(hit["_index"], hit["_id"])
            if row is not None and row.collection == Session.spec.collection:
                expired = not row.deleted and not row.is_alive(now)
                await purge_session(self._client, ref)
                removed += expired
            else:
                writes.append(Write(ref, None, found))
        return removed + sum(map(bool, await self._client.write(writes)))


def _is_visible(row: Row, scope: Scope, of: type[Record], now: datetime) -> bool:
    return row.is_alive(now) and (of.spec.shared or row.user_id == scope.user_id)


def _gone(now: datetime) -> list[dict[str, Any]]:
    """Queries for expired records, and for sessions that are being deleted."""
    return [{"range": {"keep_until": {"lte": to_micros(now)}}}, {"term": {"deleted": True}}]
