"""The documents contract in process: a dictionary per collection and site, and a sorted listing per owner."""

import base64
from bisect import bisect_left, bisect_right, insort
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import count, islice
from typing import Any, TypeVar

from wenmai.clock import Clock, to_micros
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.identity import as_changed, as_created, bind_to, bound_session, preserved_fields
from wenmai.stores.inprocess.rows import Row, decode, encode
from wenmai.stores.records import Record, Session
from wenmai.stores.records.base import stored_fields
from wenmai.stores.structs import Page, Stored
from wenmai.stores.validation import MAX_KEYS, check_filters, check_key, check_range
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)

_Site = tuple[str, str, str]
"""Collection, tenant, site."""

_Position = tuple[int, int]
"""Sort key of listings: creation time in microseconds, then order of creation."""

MAX_PAGE = 500


class InProcessDocuments:
    """See :class:`wenmai.stores.contracts.Documents`.

    A filtered listing reads only the records of its own scope.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._serials = count(1)
        self._rows: dict[_Site, dict[str, Row]] = {}
        self._listings: dict[tuple[_Site, str], list[tuple[_Position, Row]]] = {}
        self._expiring: dict[int, tuple[type[Record], _Site, Row]] = {}

    def row(self, scope: Scope, of: type[Record], key: str) -> Row | None:
        """The live row of the key, None if absent or foreign; logs look up their session with it."""
        row, now = self._rows.get(_site(scope, of), {}).get(key), self._clock()
        visible = row is not None and (of.spec.shared or row.user_id == scope.user_id)
        return row if row is not None and visible and row.is_alive(now) else None

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        check_owner(scope, key)
        row = self.row(scope, of, key)
        return _stored(row, of) if row else None

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        check_range("keys", len(keys), 0, MAX_KEYS)
        check_owner(scope, *keys)
        rows = ((key, self.row(scope, of, key)) for key in keys)
        return {key: _stored(row, of) for key, row in rows if row}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        of, key = type(record), record.key
        check_owner(scope)
        check_key(of.spec.key, key)
        check_record(record, keep_until)
        now = self._clock()
        session = self._session_row(scope, record)
        taken = self._rows.get(_site(scope, of), {}).get(key)
        if taken is not None and not taken.is_alive(now):
            self._remove(of, _site(scope, of), taken)
            taken = None
        mine = self.row(scope, of, key)
        stored_version = mine.version if mine else 0
        if (taken is not None and mine is None) or expected not in (None, stored_version):
            raise VersionConflict(of.spec.collection, key, expected=expected or 0)
        if session is not None:
            record = bind_to(record, decode(session.raw, Session).incarnation)
        if mine is None:
            raw = encode(as_created(record, expected=expected))
        else:
            raw = encode(as_changed(record, _preserved(mine, of), expected=expected))
        row = mine or self._insert(scope, of, key)
        _bind(row, of, session)
        row.raw, row.version, row.updated_at, row.keep_until = raw, stored_version + 1, now, keep_until
        if keep_until is None:
            self._expiring.pop(row.serial, None)
        else:
            self._expiring[row.serial] = (of, _site(scope, of), row)
        return _stored(row, of)

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
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
        """See :meth:`wenmai.stores.contracts.Documents.sweep`."""
        now = self._clock()
        due = [serial for serial, (_, _, row) in self._expiring.items() if not row.is_alive(now)]
        for serial in due:
            if serial in self._expiring:  # not yet removed with its session
                self._remove(*self._expiring[serial])
        return len(due)

    def sessions_after(self, owners: int, position: _Position, limit: int) -> list[tuple[int, _Position, Scope, Row]]:
        """The next sessions of all scopes: number of the owner in order of arrival, position, owner and row.

        Args:
            owners: how many owners are passed over.
            position: of the last session of the next owner that is passed over.
            limit: of sessions.
        """
        found: list[tuple[int, _Position, Scope, Row]] = []
        listings = enumerate(islice(self._listings.items(), owners, None), owners)
        for number, ((site, user_id), listing) in listings:
            if site[0] == Session.spec.collection:
                first = bisect_right(listing, position, key=_position_of) if number == owners else 0
                scope = Scope(site[1], site[2], user_id)
                rows = islice(listing, first, first + limit - len(found))
                found += [(number, place, scope, row) for place, row in rows]
            if len(found) == limit:
                break
        return found

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
        check_range("limit", limit, 1, MAX_PAGE)
        filters = check_filters(of, where)
        listing = self._listings.get(_listing(scope.user_id, of, _site(scope, of)), [])
        end = len(listing) if cursor is None else bisect_left(listing, _parse_cursor(cursor), key=_position_of)
        now, found = self._clock(), []
        for position in range(end - 1, -1, -1):
            place, row = listing[position]
            if row.is_alive(now):
                stored = _stored(row, of)
                if all(getattr(stored.record, stored_fields(of)[field]) == value for field, value in filters.items()):
                    found.append((place, stored))
            if len(found) > limit:
                break
        more = len(found) > limit
        items = [stored for _, stored in found[:limit]]
        return Page(items=items, next_cursor=_cursor(found[limit - 1][0]) if more else None)

    def _session_row(self, scope: Scope, record: Record) -> Row | None:
        """The row of the session that the record is bound to, if any."""
        named = bound_session(record)
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
        insort(listing, (_position(row), row), key=_position_of)
        return row

    def _remove(self, of: type[Record], site: _Site, row: Row) -> None:
        del self._rows[site][row.key]
        listing = self._listings[_listing(row.user_id, of, site)]
        del listing[bisect_left(listing, _position(row), key=_position_of)]
        self._expiring.pop(row.serial, None)
        _bind(row, of, None)
        for bound_type, bound_row in list(row.bound.values()):
            self._remove(bound_type, (bound_type.spec.collection, *site[1:]), bound_row)


def _bind(row: Row, of: type[Record], session: Row | None) -> None:
    """Bind a row to the session's row, or to none."""
    if row.session is not None:
        del row.session.bound[row.serial]
    row.session = session
    if session is not None:
        session.bound[row.serial] = (of, row)


def _preserved(row: Row, of: type[Record]) -> dict[str, Any]:
    record = decode(row.raw, of)
    return {field: getattr(record, field) for field in preserved_fields(of.spec)}


def _site(scope: Scope, of: type[Record]) -> _Site:
    return (of.spec.collection, scope.tenant_id, scope.site_id)


def _listing(user_id: str, of: type[Record], site: _Site) -> tuple[_Site, str]:
    # No user id is empty, so shared records never collide with a user's own.
    return (site, "" if of.spec.shared else user_id)


def _position(row: Row) -> _Position:
    return (to_micros(row.created_at), row.serial)


def _position_of(listed: tuple[_Position, Row]) -> _Position:
    return listed[0]


def _stored(row: Row, of: type[R]) -> Stored[R]:
    return Stored(decode(row.raw, of), row.version, row.user_id, row.created_at, row.updated_at)


def _cursor(place: _Position) -> str:
    return base64.urlsafe_b64encode(f"{place[0]}.{place[1]}".encode()).decode()


def _parse_cursor(cursor: str) -> _Position:
    try:
        created, serial = base64.b64decode(cursor, altchars=b"-_", validate=True).decode().split(".")
        return (int(created), int(serial))
    except ValueError as error:
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page") from error
