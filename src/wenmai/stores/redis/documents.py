"""The documents contract on Redis: a hash per record, listings in sorted sets, changes in scripts."""

import base64
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from msgspec.structs import replace

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import InvalidInput, SessionNotFound, VersionConflict
from wenmai.scope import Scope
from wenmai.stores.identity import INCARNATION, SESSION_ID, bound_session, new_identity
from wenmai.stores.records import Record, Session
from wenmai.stores.records.base import stored_fields
from wenmai.stores.redis.document_scripts import PUT, PutRequest
from wenmai.stores.redis.keys import Keys, ending_member
from wenmai.stores.redis.link import Link
from wenmai.stores.redis.reading import Place, Reader, indexed_fields
from wenmai.stores.redis.removing import Remover, places_of, state_of
from wenmai.stores.redis.retention import Retention
from wenmai.stores.redis.rows import Row, codecs_of, decode, encode, rfc3339, text_of
from wenmai.stores.structs import Page, Stored
from wenmai.stores.validation import MAX_KEYS, check_filters, check_key, check_range
from wenmai.stores.values import check_owner, check_record

R = TypeVar("R", bound=Record)

MAX_PAGE = 500

_MEMBER = re.compile(r"\d{20}:.{1,512}", re.DOTALL)


class RedisDocuments:
    """See :class:`wenmai.stores.contracts.Documents`.

    A put or a get is one round trip, a listing two. A delete, a put that changes a field by which the record is listed,
    and a put over a record that is gone first read the record, and then change it if it is still the same.
    """

    def __init__(self, link: Link, keys: Keys, clock: Clock, retention: Retention) -> None:
        self._link = link
        self._keys = keys
        self._clock = clock
        self._retention = retention
        self._reader = Reader(link, keys, clock)
        self._remover = Remover(link, keys, clock, self._reader)

    async def get(self, scope: Scope, of: type[R], key: str) -> Stored[R] | None:
        """See :meth:`wenmai.stores.contracts.Documents.get`."""
        check_owner(scope, key)
        row = await self._reader.row(Place(of, scope, key))
        return decode(row, of) if self._reader.visible(row, scope, of) else None

    async def get_many(self, scope: Scope, of: type[R], keys: Sequence[str]) -> dict[str, Stored[R]]:
        """See :meth:`wenmai.stores.contracts.Documents.get_many`."""
        check_range("keys", len(keys), 0, MAX_KEYS)
        check_owner(scope, *keys)
        wanted = list(dict.fromkeys(keys))
        found = zip(wanted, await self._reader.rows(scope, of, wanted), strict=True)
        return {key: decode(row, of) for key, row in found if self._reader.visible(row, scope, of)}

    async def put(
        self, scope: Scope, record: R, *, expected: int | None = None, keep_until: datetime | None = None
    ) -> Stored[R]:
        """See :meth:`wenmai.stores.contracts.Documents.put`."""
        of, key = type(record), record.key
        check_owner(scope)
        check_key(of.spec.key, key)
        check_record(record, keep_until)
        place = Place(of, scope, key)
        seen: Row = {}
        while True:
            now = self._clock()
            answer = await self._put(place, record, seen, expected, keep_until, now)
            if answer[0] == b"put":
                _, version, owner, created, extend, *fields = answer
                if extend:
                    await self._retention.extend(scope, key, lambda: self._remover.persona_ids(scope, key))
                return Stored(_with_answer(record, fields), version, owner.decode(), from_micros(int(created)), now)
            if answer[0] == b"no session":
                raise SessionNotFound(getattr(record, SESSION_ID))
            if answer[0] == b"taken":
                raise VersionConflict(of.spec.collection, key, expected=expected or 0)
            seen = await self._reader.row(place)
            if answer[0] == b"ended" and seen and not self._reader.is_live(seen):
                await self._remover.remove(place, seen)

    async def delete(
        self, scope: Scope, of: type[R], key: str, *, expected: int | None = None, identity: str | None = None
    ) -> bool:
        """See :meth:`wenmai.stores.contracts.Documents.delete`."""
        check_owner(scope, key)
        place = Place(of, scope, key)
        while True:
            row = await self._reader.row(place)
            if not self._reader.visible(row, scope, of):
                return False
            if identity is not None and getattr(decode(row, of).record, of.spec.identity) != identity:
                return False
            if expected not in (None, int(text_of(row, "_version"))):
                raise VersionConflict(of.spec.collection, key, expected=expected or 0)
            if await self._remover.remove(place, row):
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
        """See :meth:`wenmai.stores.contracts.Documents.list`.

        With several filters the shortest of their indexes is scanned. A member whose record is gone or no longer fits
        is skipped, and removed from the index if the record is gone.
        """
        check_range("limit", limit, 1, MAX_PAGE)
        filters = check_filters(of, where)
        upper = "+" if cursor is None else f"({_parse_cursor(cursor)}"
        index = await self._shortest_index(scope, of, filters)
        found: list[tuple[str, Stored[R]]] = []
        while len(found) <= limit:
            members = await self._link.command("ZREVRANGEBYLEX", index, upper, "-", "LIMIT", 0, limit + 1)
            names = [member.decode() for member in members]
            found += await self._listed(scope, of, index, names, filters)
            if len(names) <= limit:
                break
            upper = f"({names[-1]}"
        more = len(found) > limit
        items = [stored for _, stored in found[:limit]]
        return Page(items=items, next_cursor=_make_cursor(found[limit - 1][0]) if more else None)

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`; also cleans the indexes of expired records."""
        return await self._remover.sweep()

    async def _put(
        self,
        place: Place,
        record: Record,
        seen: Row,
        expected: int | None,
        keep_until: datetime | None,
        now: datetime,
    ) -> Any:
        of, scope, key = place
        words, absent = encode(record)
        fields = indexed_fields(of)
        fits = [self._keys.filter(scope, of, field, getattr(record, stored_fields(of)[field])) for field in fields]
        held = self._remover.filters(place, seen) if seen else []
        expiry, companion = self._retention.expiry(record, keep_until), self._retention.companion(scope, record)
        is_bound = bound_session(record) is not None
        holder = _holder(record)
        request = PutRequest(
            user=scope.user_id,
            shared=of.spec.shared,
            expected="" if expected is None else str(expected),
            now=str(to_micros(now)),
            updated_at=rfc3339(now),
            key=key,
            ends="" if keep_until is None else str(to_micros(keep_until)),
            end_name=ending_member(scope, of, key),
            expire_at="" if expiry is None else str(expiry // 1000),
            due=str(to_micros(keep_until)) if keep_until is not None else "" if expiry is None else str(expiry),
            place=places_of(scope.user_id, fits),
            born=new_identity(),
            seen=state_of(seen),
            filters=list(fields),
            words=words,
            absent=absent,
            relation="leads" if of is Session else "bound" if is_bound else "",
            sessions=self._keys.sessions(scope) if of.spec.bound_to else "",
            identity=bool(of.spec.identity),
            holder=holder,
            incarnation=getattr(record, holder) if holder else "",
            monotonic=list(of.spec.monotonic),
        )
        document, index = self._keys.document(scope, of, key), self._keys.index(scope, of)
        keys = (document, index, self._keys.ending, self._keys.ending_where, companion or document)
        return await self._link.run(PUT, (*keys, *fits, *held), (request.pack(),))

    async def _shortest_index(self, scope: Scope, of: type[Record], filters: Mapping[str, str]) -> str:
        indexes = [self._keys.filter(scope, of, field, value) for field, value in filters.items()]
        if len(indexes) < 2:  # noqa: PLR2004 — with one there is nothing to choose
            return indexes[0] if indexes else self._keys.index(scope, of)
        sizes = await self._link.commands([("ZCARD", index) for index in indexes])
        return indexes[sizes.index(min(sizes))]

    async def _listed(
        self, scope: Scope, of: type[R], index: str, members: Sequence[str], filters: Mapping[str, str]
    ) -> Sequence[tuple[str, Stored[R]]]:
        rows = await self._reader.rows(scope, of, [member.partition(":")[2] for member in members])
        missing = [member for member, row in zip(members, rows, strict=True) if not _is_of(row, member)]
        if missing:
            await self._link.command("ZREM", index, *missing)
        visible = [
            (member, decode(row, of))
            for member, row in zip(members, rows, strict=True)
            if _is_of(row, member) and self._reader.visible(row, scope, of)
        ]
        return [
            (member, stored)
            for member, stored in visible
            if all(getattr(stored.record, stored_fields(of)[field]) == value for field, value in filters.items())
        ]


def _with_answer(record: R, fields: Sequence[bytes]) -> R:
    """The record with the values that PUT returned: its incarnation, and the monotonic fields."""
    holder, codecs = _holder(record), codecs_of(type(record))
    changes: dict[str, Any] = {holder: fields[0].decode()} if holder else {}
    for name, value in zip(record.spec.monotonic, fields[1:], strict=True):
        changes[name] = codecs[name].decode(value.decode())
    return replace(record, **changes)


def _holder(record: Record) -> str:
    """The field of the record that PUT sets to an incarnation; "" if there is none."""
    return INCARNATION if bound_session(record) else record.spec.identity


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
