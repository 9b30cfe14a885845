"""Reading hashes: a record with the session that it is bound to, and all records bound to a session."""

from collections.abc import Sequence
from typing import NamedTuple

from wenmai.clock import Clock, to_micros
from wenmai.scope import Scope
from wenmai.stores.identity import SESSION_ID
from wenmai.stores.records import Record, bound_records
from wenmai.stores.redis.binding import READ
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link
from wenmai.stores.redis.rows import Row, as_row, end_of, text_of


class Place(NamedTuple):
    """Where a record is: its type, owner and key."""

    of: type[Record]
    scope: Scope
    key: str


def indexed_fields(of: type[Record]) -> tuple[str, ...]:
    """The fields that records of the type are indexed by: those that callers filter by, and the session."""
    fields = of.spec.filters
    not_keyed_by_session = of.spec.bound_to and of.spec.key != SESSION_ID
    return (*fields, SESSION_ID) if not_keyed_by_session and SESSION_ID not in fields else fields


class Reader:
    """Reads rows; a row and the state of its session are read atomically."""

    def __init__(self, link: Link, keys: Keys, clock: Clock) -> None:
        self._link = link
        self._keys = keys
        self._clock = clock

    async def row(self, place: Place) -> Row:
        """The row of a record; empty if there is none."""
        return (await self.rows(place.scope, place.of, [place.key]))[0]

    async def rows(self, scope: Scope, of: type[Record], keys: Sequence[str]) -> Sequence[Row]:
        """The rows of several records, in the order of their keys, in one round trip."""
        names = [self._keys.document(scope, of, key) for key in keys]
        if not names:
            return []
        if of.spec.bound_to:
            words = (self._keys.sessions(scope), to_micros(self._clock()))
            answers = await self._link.run(READ, names, words)
        else:
            answers = await self._link.commands([("HGETALL", name) for name in names])
        return [as_row(answer) for answer in answers]

    def visible(self, row: Row, scope: Scope, of: type[Record]) -> bool:
        """Whether there is a record, and the scope may see it."""
        return bool(row) and (of.spec.shared or text_of(row, "_user") == scope.user_id) and self.is_live(row)

    def is_live(self, row: Row) -> bool:
        """Whether a record has not ended, and its session, if it is bound to one, still exists."""
        end = end_of(row)
        return row.get(b"_session") != b"" and (end is None or end > to_micros(self._clock()))

    async def bound_to(self, scope: Scope, session_id: str) -> list[Place]:
        """The records of the scope's user that are bound to a session of that id, present or former."""
        bound = bound_records()
        places = [Place(of, scope, session_id) for of in bound if of.spec.key == SESSION_ID]
        listed = [of for of in bound if of.spec.key != SESSION_ID]
        indexes = [self._keys.filter(scope, of, SESSION_ID, session_id) for of in listed]
        found = await self._link.commands([("ZRANGE", index, 0, -1) for index in indexes])
        for of, members in zip(listed, found, strict=True):
            places += [Place(of, scope, member.decode().partition(":")[2]) for member in members]
        return places

    async def bound_keys(self, scope: Scope, session_id: str) -> list[str]:
        """The keys of these records."""
        return [self._keys.document(scope, of, key) for of, _, key in await self.bound_to(scope, session_id)]
