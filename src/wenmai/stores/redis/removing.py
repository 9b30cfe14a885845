"""Removing records with their places in listings, and the records bound to a session that is gone.

Deleting a session's record makes its threads and the records bound to it absent atomically. The bound records are
removed afterwards, in batches; if the process dies before, the next sweep removes the rest.
"""

from collections.abc import Sequence
from itertools import groupby

import msgspec

from wenmai.clock import Clock, to_micros
from wenmai.scope import Scope
from wenmai.stores.records import RECORDS, Session
from wenmai.stores.redis.document_scripts import REMOVE, UNINDEX
from wenmai.stores.redis.keys import Keys, ending_member, parse_ending_member
from wenmai.stores.redis.link import Link, Word
from wenmai.stores.redis.reading import Place, Reader, indexed_fields
from wenmai.stores.redis.rows import Row, text_of

SWEEP_BATCH = 100
RECHECK_MICROS = 86_400_000_000
"""When a sweep checks a session again that was due and has been used since."""

_decode_places = msgspec.json.Decoder(tuple[str, list[str]]).decode


class Remover:
    """Removes records, unless they have changed since they were read."""

    def __init__(self, link: Link, keys: Keys, clock: Clock, reader: Reader) -> None:
        self._link = link
        self._keys = keys
        self._clock = clock
        self._reader = reader

    async def sweep(self) -> int:
        """See :meth:`wenmai.stores.contracts.Documents.sweep`."""
        removed = 0
        while True:
            now = to_micros(self._clock())
            due = await self._link.command("ZRANGEBYSCORE", self._keys.ending, "-inf", now, "LIMIT", 0, SWEEP_BATCH)
            for member in due:
                removed += await self._sweep_one(member.decode(), now)
            if len(due) < SWEEP_BATCH:
                return removed

    async def _sweep_one(self, member: str, now: int) -> bool:
        collection, tenant, site, key = parse_ending_member(member)
        of = next((of for of in RECORDS if of.spec.collection == collection), None)
        if of is None:
            # A type of a newer version.
            return bool(await self._link.command("ZREM", self._keys.ending, member))
        place = Place(of, Scope(tenant, site, ""), key)
        row = await self._reader.row(place)
        if not row:
            known = await self._link.command("HGET", self._keys.ending_where, member)
            return await self._remove_remains(place, member, (known or b"").decode())
        if not self._reader.is_live(row):
            return await self.remove(place, row)
        # The session has been used since, so its expiry has moved; check it again later.
        again = now + RECHECK_MICROS
        await self._link.command("ZADD", self._keys.ending, "XX", again, member)
        return False

    async def remove(self, place: Place, row: Row) -> bool:
        """Remove the record that was read as ``row``, and all bound to it; False if it has changed since."""
        of, key = place.of, place.key
        persona_ids = await self.persona_ids(place.scope, key) if of is Session else []
        keys, words = self._removal(place, row, persona_ids)
        done = bool(await self._link.run(REMOVE, keys, words))
        if done and of is Session:
            await self._remove_remains(place, ending_member(place.scope, of, key), _session_places(row))
        return done

    async def persona_ids(self, scope: Scope, session_id: str) -> Sequence[str]:
        """The personas that have threads in the session."""
        _, registry = self._keys.session(scope, session_id, ())
        return [persona_id.decode() for persona_id in await self._link.command("ZRANGE", registry, 0, -1)]

    def filters(self, place: Place, row: Row) -> list[str]:
        """The filters that list a record."""
        of, scope, _ = place
        fields = [field for field in indexed_fields(of) if field.encode() in row]
        return [self._keys.filter(scope, of, field, text_of(row, field)) for field in fields]

    async def _remove_remains(self, place: Place, end_name: str, known: str) -> bool:
        """Remove the remains of a record that is gone; False if the key was taken since.

        Args:
            place: where it was; the index of ends has no user.
            end_name: its name in that index.
            known: its places as stored in that index, or "".
        """
        created, _, listed = known.partition(" ")
        user_id, filters = _decode_places(listed) if listed else ("", [])
        scope = place.scope._replace(user_id=user_id)
        if place.of is Session and listed:
            await self._remove_bound(scope, place.key)
        member = f"{int(created):020d}:{place.key}" if listed else ""
        document, index = self._keys.document(scope, place.of, place.key), self._keys.index(scope, place.of)
        keys = (document, index, self._keys.ending, self._keys.ending_where, *filters)
        return bool(await self._link.run(UNINDEX, keys, (end_name, member, known)))

    async def _remove_bound(self, scope: Scope, session_id: str) -> None:
        """Remove the records bound to former sessions of that id; those bound to the present one stay."""
        for of, group in groupby(await self._reader.bound_to(scope, session_id), key=lambda place: place.of):
            places = list(group)
            for first in range(0, len(places), SWEEP_BATCH):
                batch = places[first : first + SWEEP_BATCH]
                rows = await self._reader.rows(scope, of, [place.key for place in batch])
                dead = [pair for pair in zip(batch, rows, strict=True) if pair[1] and not self._reader.is_live(pair[1])]
                await self._link.run_each(REMOVE, [self._removal(place, row) for place, row in dead])

    def _removal(self, place: Place, row: Row, persona_ids: Sequence[str] = ()) -> tuple[list[str], list[Word]]:
        of, key = place.of, place.key
        scope = place.scope._replace(user_id=text_of(row, "_user"))
        session = self._keys.session(scope, key, persona_ids)[1:] if of is Session else []
        filters = self.filters(Place(of, scope, key), row)
        created = text_of(row, "_created")
        known = _session_places(row) if of is Session else ""
        document, index = self._keys.document(scope, of, key), self._keys.index(scope, of)
        words: list[Word] = [
            *(
                state_of(row),
                f"{int(created):020d}:{key}",
                ending_member(scope, of, key),
                len(filters),
                len(persona_ids),
            ),
            *(to_micros(self._clock()), known),
        ]
        return [document, index, self._keys.ending, self._keys.ending_where, *filters, *session], [*words, *persona_ids]


def state_of(row: Row) -> str:
    """The unique state of a key: its incarnation and version."""
    return f"{text_of(row, '_born')}:{text_of(row, '_version')}" if row else ""


def places_of(user_id: str, filters: Sequence[str]) -> str:
    """A record's places in the index of ends, beside its creation: its user and the filters that list it."""
    return msgspec.json.encode([user_id, list(filters)]).decode()


def _session_places(row: Row) -> str:
    return f"{text_of(row, '_created')} {places_of(text_of(row, '_user'), ())}"
