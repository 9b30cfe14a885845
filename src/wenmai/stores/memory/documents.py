"""Documents in dictionaries, one per collection and site; listings by owner are kept sorted."""

import base64
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, TypeVar

from wenmai.clock import Clock, to_micros
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Page, Stored
from wenmai.stores.fields import MANY, check_filters, check_key, check_range
from wenmai.stores.identity import as_changed, as_created, bound, kept_fields, session_named_by
from wenmai.stores.memory.rows import Row, decode, encode
from wenmai.stores.records import Record, Session
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)

_Site = tuple[str, str, str]
"""Collection, tenant, site."""

_Place = tuple[int, int]
"""Where a record stands in listings: creation in microseconds, then order of creation."""

MAX_PAGE = 500


class MemoryDocuments:
    """See :class:`wenmai.stores.base.Documents`.

    A filtered listing looks at the records of its own scope, never at those of others.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._serials = count(1)
        self._rows: dict[_Site, dict[str, Row]] = {}
        self._listings: dict[tuple[_Site, str], list[tuple[_Place, Row]]] = {}
        self._ending: dict[int, tuple[type[Record], _Site, Row]] = {}

    def row(self, scope: Scope, of: type[Record], key: str) -> Row | None:
        """The live row of that key, None if it is absent or foreign; logs find their session by it."""
        row, now = self._rows.get(_site(scope, of), {}).get(key), self._clock()
        visible = row is not None and (of.spec.shared or row.user_id == scope.user_id)
        return row if row is not None and visible and row.lives(now) else None

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.base.Documents.get`."""
        check_owner(scope, key)
        row = self.row(scope, of, key)
        return _stored(row, of) if row else None

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.base.Documents.get_many`."""
        check_range("keys", len(keys), 0, MANY)
        check_owner(scope, *keys)
        rows = ((key, self.row(scope, of, key)) for key in keys)
        return {key: _stored(row, of) for key, row in rows if row}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        of, key = type(record), record.key
        check_owner(scope)
        check_key(of.spec.key, key)
        check_record(record, keep_until)
        now = self._clock()
        session = self._session_of(scope, record)
        taken = self._rows.get(_site(scope, of), {}).get(key)
        if taken is not None and not taken.lives(now):
            self._remove(of, _site(scope, of), taken)
            taken = None
        mine = self.row(scope, of, key)
        stored_version = mine.version if mine else 0
        if (taken is not None and mine is None) or expected not in (None, stored_version):
            raise VersionConflict(of.spec.collection, key, expected=expected or 0)
        if session is not None:
            record = bound(record, decode(session.raw, Session).incarnation)
        if mine is None:
            raw = encode(as_created(record, expected=expected))
        else:
            raw = encode(as_changed(record, _kept(mine, of), expected=expected))
        row = mine or self._insert(scope, of, key)
        _hang(row, of, session)
        row.raw, row.version, row.updated_at, row.keep_until = raw, stored_version + 1, now, keep_until
        if keep_until is None:
            self._ending.pop(row.serial, None)
        else:
            self._ending[row.serial] = (of, _site(scope, of), row)
        return _stored(row, of)

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        check_owner(scope, key)
        row = self.row(scope, of, key)
        if row is None:
            return False
        if identity is not None and getattr(_stored(row, of).record, of.spec.identity) != identity:
            return False
        if expected not in (None, row.version):
            raise VersionConflict(of.spec.collection, key, expected=expected or 0)
        self._remove(of, _site(scope, of), row)
        return True

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`."""
        now = self._clock()
        due = [serial for serial, (_, _, row) in self._ending.items() if not row.lives(now)]
        for serial in due:
            if serial in self._ending:  # it may have gone with its session
                self._remove(*self._ending[serial])
        return len(due)

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
        check_range("limit", limit, 1, MAX_PAGE)
        filters = check_filters(of, where)
        listing = self._listings.get(_listing(scope.user_id, of, _site(scope, of)), [])
        end = len(listing) if cursor is None else bisect_left(listing, _place_of(cursor), key=_place)
        now, found = self._clock(), []
        for position in range(end - 1, -1, -1):
            place, row = listing[position]
            if row.lives(now):
                stored = _stored(row, of)
                if all(getattr(stored.record, field) == value for field, value in filters.items()):
                    found.append((place, stored))
            if len(found) > limit:
                break
        more = len(found) > limit
        items = [stored for _, stored in found[:limit]]
        return Page(items=items, next_cursor=_cursor(found[limit - 1][0]) if more else None)

    def _session_of(self, scope: Scope, record: Record) -> Row | None:
        """The row of the session that the record is to hang on, if on any."""
        named = session_named_by(record)
        if named is None:
            return None
        session_id, incarnation = named
        row = self.row(scope, Session, session_id)
        if row is None or incarnation not in ("", decode(row.raw, Session).incarnation):
            raise SessionNotFound(session_id)
        return row

    def _insert(self, scope: Scope, of: type[Record], key: str) -> Row:
        now, site = self._clock(), _site(scope, of)
        row = Row(
            serial=next(self._serials),
            key=key,
            raw=b"",
            version=0,
            user_id=scope.user_id,
            created_at=now,
            updated_at=now,
            keep_until=None,
        )
        self._rows.setdefault(site, {})[key] = row
        listing = self._listings.setdefault(_listing(row.user_id, of, site), [])
        insort(listing, (_row_place(row), row), key=_place)
        return row

    def _remove(self, of: type[Record], site: _Site, row: Row) -> None:
        del self._rows[site][row.key]
        listing = self._listings[_listing(row.user_id, of, site)]
        del listing[bisect_left(listing, _row_place(row), key=_place)]
        self._ending.pop(row.serial, None)
        _hang(row, of, None)
        for part, hung in list(row.bound.values()):
            self._remove(part, (part.spec.collection, *site[1:]), hung)


def _hang(row: Row, of: type[Record], session: Row | None) -> None:
    """Hang a row on the session's, and on no other any more."""
    if row.session is not None:
        del row.session.bound[row.serial]
    row.session = session
    if session is not None:
        session.bound[row.serial] = (of, row)


def _kept(row: Row, of: type[Record]) -> dict[str, Any]:
    record = decode(row.raw, of)
    return {field: getattr(record, field) for field in kept_fields(of.spec)}


def _site(scope: Scope, of: type[Record]) -> _Site:
    return (of.spec.collection, scope.tenant_id, scope.site_id)


def _listing(user_id: str, of: type[Record], site: _Site) -> tuple[_Site, str]:
    # No user has the empty name, so a site's shared records never meet a user's own.
    return (site, "" if of.spec.shared else user_id)


def _row_place(row: Row) -> _Place:
    return (to_micros(row.created_at), row.serial)


def _place(listed: tuple[_Place, Row]) -> _Place:
    return listed[0]


def _stored(row: Row, of: type[R]) -> Stored[R]:
    return Stored(decode(row.raw, of), row.version, row.user_id, row.created_at, row.updated_at)


def _cursor(place: _Place) -> str:
    return base64.urlsafe_b64encode(f"{place[0]}.{place[1]}".encode()).decode()


def _place_of(cursor: str) -> _Place:
    try:
        created, serial = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(".")
        return (int(created), int(serial))
    except ValueError as error:
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page") from error
