"""The documents contract on Redis: a hash a record, listings in sorted sets, changes in scripts."""

import base64
import re
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

from wenmai.clock import Clock, from_micros, system_clock, to_micros
from wenmai.errors import InvalidInput, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.base import Page, Stored
from wenmai.stores.fields import MANY, check_filters, check_key, check_range
from wenmai.stores.records import RECORDS, Record, Session
from wenmai.stores.redis.document_scripts import PUT, REMOVE
from wenmai.stores.redis.keys import Keys, ending_member, parse_ending_member
from wenmai.stores.redis.link import Link
from wenmai.stores.redis.rows import Row, as_row, decode, encode, end_of, rfc3339, text_of

R = TypeVar("R", bound=Record)

MAX_PAGE = 500
SWEPT_AT_ONCE = 100
_MEMBER = re.compile(r"\d{20}:.{1,512}", re.DOTALL)
_BY_COLLECTION = {of.spec.collection: of for of in RECORDS}

EXPIRY_GRACE = timedelta(hours=1)
"""How long after its end the server drops a record that no sweep has removed."""


class _Place(NamedTuple):
    """Where a record is: its type, owner and key."""

    of: type[Record]
    scope: Scope
    key: str


class RedisDocuments:
    """See :class:`wenmai.stores.base.Documents`.

    A put or a get is one round trip, a listing two. A change of a record that has filters, and a delete, first read
    what is there and then change it on condition that it is still so.
    """

    def __init__(self, link: Link, keys: Keys, clock: Clock) -> None:
        self._link = link
        self._keys = keys
        self._clock = clock

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.base.Documents.get`."""
        row = await self._row(_Place(of, scope, key))
        return decode(row, of) if self._visible(row, scope, of) else None

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.base.Documents.get_many`."""
        check_range("keys", len(keys), 0, MANY)
        wanted = list(dict.fromkeys(keys))
        found = zip(wanted, await self._rows(scope, of, wanted), strict=True)
        return {key: decode(row, of) for key, row in found if self._visible(row, scope, of)}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.base.Documents.put`."""
        of, key = type(record), record.key
        check_key(of.spec.key, key)
        place = _Place(of, scope, key)
        seen: Row = {}
        while True:
            now = self._clock()
            answer = await self._put(place, record, seen, expected, keep_until, now)
            if answer[0] == b"put":
                _, version, owner, created = answer
                return Stored(record, version, owner.decode(), from_micros(int(created)), now)
            if answer[0] == b"taken":
                raise VersionConflict(of.spec.collection, key, expected=expected or 0)
            seen = await self._row(place)
            if answer[0] == b"ended" and seen and not self._lives(seen):
                await self._remove(place, seen)

    async def delete(self, scope: Scope, of: type[R], key: str, *, expected: int | None = None) -> bool:
        """See :meth:`wenmai.stores.base.Documents.delete`."""
        place = _Place(of, scope, key)
        while True:
            row = await self._row(place)
            if not self._visible(row, scope, of):
                return False
            if expected not in (None, int(text_of(row, "_version"))):
                raise VersionConflict(of.spec.collection, key, expected=expected or 0)
            if await self._remove(place, row):
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
        """See :meth:`wenmai.stores.base.Documents.list`.

        With several filters the shortest of their indexes is walked. A member whose record is gone or no longer fits is
        left out, and taken out of the index if the record is gone.
        """
        check_range("limit", limit, 1, MAX_PAGE)
        filters = check_filters(of, where)
        below = "+" if cursor is None else f"({_parse_cursor(cursor)}"
        index = await self._shortest_index(scope, of, filters)
        found: list[tuple[str, Stored[R]]] = []
        while len(found) <= limit:
            members = await self._link.command("ZREVRANGEBYLEX", index, below, "-", "LIMIT", 0, limit + 1)
            names = [member.decode() for member in members]
            found += await self._listed(scope, of, index, names, filters)
            if len(names) <= limit:
                break
            below = f"({names[-1]}"
        more = len(found) > limit
        items = [stored for _, stored in found[:limit]]
        return Page(items=items, next_cursor=_make_cursor(found[limit - 1][0]) if more else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.base.Documents.sweep`."""
        removed = 0
        while True:
            now = to_micros(self._clock())
            due = await self._link.command("ZRANGEBYSCORE", self._keys.ending, "-inf", now, "LIMIT", 0, SWEPT_AT_ONCE)
            for member in due:
                removed += await self._sweep_one(member.decode())
            if len(due) < SWEPT_AT_ONCE:
                return removed

    async def _sweep_one(self, member: str) -> bool:
        collection, tenant, site, key = parse_ending_member(member)
        of = _BY_COLLECTION.get(collection)
        place = None if of is None else _Place(of, Scope(tenant, site, ""), key)
        row = {} if place is None else await self._row(place)
        if place is None or not row:
            # The server's own expiry came first, or a newer Wenmai had a type that this one lacks.
            return bool(await self._link.command("ZREM", self._keys.ending, member))
        if self._lives(row):
            return False
        return await self._remove(place, row)

    async def _put(
        self,
        place: _Place,
        record: Record,
        seen: Row,
        expected: int | None,
        keep_until: datetime | None,
        now: datetime,
    ) -> Any:
        of, scope, key = place
        pairs, absent = encode(record)
        fits = [self._keys.filter(scope, of, field, getattr(record, field)) for field in of.spec.filters]
        held = self._filters_of(place, seen)
        arguments = (
            scope.user_id,
            int(of.spec.shared),
            "" if expected is None else expected,
            to_micros(now),
            rfc3339(now),
            key,
            "" if keep_until is None else to_micros(keep_until),
            ending_member(scope, of, key),
            self._expiry(of, keep_until),
            secrets.token_hex(8),
            _state(seen),
            len(fits),
            len(pairs),
            *pairs,
            *absent,
        )
        keys = (self._keys.document(scope, of, key), self._keys.index(scope, of), self._keys.ending)
        return await self._link.run(PUT, (*keys, *fits, *held), arguments)

    async def _remove(self, place: _Place, row: Row) -> bool:
        """Remove the record that was read as ``row``; False if it has changed since."""
        of, key = place.of, place.key
        scope = place.scope._replace(user_id=text_of(row, "_user"))
        session_keys, npc_ids = await self._threads_of(scope, key) if of is Session else ([], [])
        filters = self._filters_of(_Place(of, scope, key), row)
        member = f"{int(text_of(row, '_created')):020d}:{key}"
        document, index = self._keys.document(scope, of, key), self._keys.index(scope, of)
        done = await self._link.run(
            REMOVE,
            (document, index, self._keys.ending, *filters, *session_keys),
            (_state(row), member, ending_member(scope, of, key), len(filters), len(npc_ids), *npc_ids),
        )
        return bool(done)

    async def _threads_of(self, scope: Scope, session_id: str) -> tuple[Sequence[str], Sequence[str]]:
        """The keys that hang on a session, its list of threads first, and the personas of the threads."""
        _, registry = self._keys.session(scope, session_id, ())
        npc_ids = [npc_id.decode() for npc_id in await self._link.command("ZRANGE", registry, 0, -1)]
        return self._keys.session(scope, session_id, npc_ids)[1:], npc_ids

    async def _row(self, place: _Place) -> Row:
        return as_row(await self._link.command("HGETALL", self._keys.document(place.scope, place.of, place.key)))

    async def _rows(self, scope: Scope, of: type[Record], keys: Sequence[str]) -> Sequence[Row]:
        answers = await self._link.commands([("HGETALL", self._keys.document(scope, of, key)) for key in keys])
        return [as_row(answer) for answer in answers]

    async def _shortest_index(self, scope: Scope, of: type[Record], filters: Mapping[str, str]) -> str:
        indexes = [self._keys.filter(scope, of, field, value) for field, value in filters.items()]
        if len(indexes) < 2:  # noqa: PLR2004 — with one there is nothing to choose
            return indexes[0] if indexes else self._keys.index(scope, of)
        sizes = await self._link.commands([("ZCARD", index) for index in indexes])
        return indexes[sizes.index(min(sizes))]

    async def _listed(
        self, scope: Scope, of: type[R], index: str, members: Sequence[str], filters: Mapping[str, str]
    ) -> Sequence[tuple[str, Stored[R]]]:
        rows = await self._rows(scope, of, [member.partition(":")[2] for member in members])
        gone = [member for member, row in zip(members, rows, strict=True) if not _is_of(row, member)]
        if gone:
            await self._link.command("ZREM", index, *gone)
        visible = [
            (member, decode(row, of))
            for member, row in zip(members, rows, strict=True)
            if _is_of(row, member) and self._visible(row, scope, of)
        ]
        return [
            (member, stored)
            for member, stored in visible
            if all(getattr(stored.record, field) == value for field, value in filters.items())
        ]

    def _filters_of(self, place: _Place, row: Row) -> Sequence[str]:
        fields = place.of.spec.filters if row else ()
        return [self._keys.filter(place.scope, place.of, field, text_of(row, field)) for field in fields]

    def _visible(self, row: Row, scope: Scope, of: type[Record]) -> bool:
        return bool(row) and (of.spec.shared or text_of(row, "_user") == scope.user_id) and self._lives(row)

    def _lives(self, row: Row) -> bool:
        end = end_of(row)
        return end is None or end > to_micros(self._clock())

    def _expiry(self, of: type[Record], keep_until: datetime | None) -> int | str:
        # A session's threads go with it in one step, which the server's expiry cannot do; and a clock that is not
        # the system's says nothing about the server's.
        if keep_until is None or of is Session or self._clock is not system_clock:
            return ""
        return to_micros(keep_until + EXPIRY_GRACE) // 1000


def _state(row: Row) -> str:
    """What tells one state of a key from every other: its incarnation and version."""
    return f"{text_of(row, '_born')}:{text_of(row, '_version')}" if row else ""


def _is_of(row: Row, member: str) -> bool:
    return bool(row) and int(text_of(row, "_created")) == int(member.partition(":")[0])


def _make_cursor(member: str) -> str:
    return base64.urlsafe_b64encode(member.encode()).decode()


def _parse_cursor(cursor: str) -> str:
    try:
        member = base64.b64decode(cursor, altchars=b"-_", validate=True).decode()
    except ValueError:
        member = ""
    if not _MEMBER.fullmatch(member):
        raise InvalidInput("cursor", cursor, "a cursor of an earlier page")
    return member
