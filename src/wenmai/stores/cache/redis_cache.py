"""The cache on Redis: entries that all processes share, in the formats that other programs read."""

import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from wenmai.clock import to_micros
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import TAIL_BYTES, TAIL_MESSAGES, CachedSession, CachedValue, SessionKey, Tail
from wenmai.stores.cache.freshness import MomentClock, SteadyWall
from wenmai.stores.cache.scripts import APPLY, DROP, READ
from wenmai.stores.cache.validation_times import ValidationTimes
from wenmai.stores.identity import INCARNATION
from wenmai.stores.records import Message, Record, Session, cached_records
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import STORE, Link, Word
from wenmai.stores.redis.messages import decode_all
from wenmai.stores.redis.messages import encode as encode_message
from wenmai.stores.redis.rows import as_row, decode, encode, rfc3339
from wenmai.stores.structs import Stored, ThreadInfo

R = TypeVar("R", bound=Record)

TTL = timedelta(hours=1)
"""Time to live of an entry after its last change; it is rarely read later."""

_pack = msgspec.msgpack.Encoder().encode
_decode_threads = msgspec.msgpack.Decoder(list[tuple[str, int, int, str, str]]).decode


class Lookup(NamedTuple):
    """The result of a read.

    Attributes:
        entry: None if there is none, or it is another user's.
        revision: of the session's entry, for :meth:`RedisSessionCache.fill`.
    """

    entry: CachedSession | None
    revision: str


class _Update(msgspec.Struct, omit_defaults=True, kw_only=True):
    """The argument of APPLY; parts without a value stay as they are.

    Attributes:
        collections: of the types of records that are cached, in the order of their keys: first the session's own.
        records: the hashes of records, by collection.
        absent: the collections of bound records that do not exist.
        user: the durable store and the session's owner in it.
        incarnation: of the session. An entry of another one is dropped; the change is then cached only if its record
            shows that its session began later, because otherwise which of the two has the id is unknown.
        expected: do nothing unless this is the revision; a result that was read when there was none is never cached,
            because a change since then would go unnoticed.
        revision: the new one.
        validated: when the durable store was read, in microseconds.
        ttl: in milliseconds.
        tail: the newest messages of the persona's thread, or, with ``appended``, those just appended; none if the
            newest alone is too large for an entry.
        appended: the number of the last of them; ``first`` that of the first, ``info`` the thread afterwards.
        begun: the session is new, so it has neither bound records nor threads.
        mark_stale: mark the entry stale; it is kept as a fallback for when the durable store is unavailable.
        own_only: mark it stale only if it belongs to the user.
        drop_thread: drop the persona's thread.
        channel, announcement: the channel to publish on, and the payload.
    """

    collections: list[str]
    user: str
    validated: str
    ttl: int
    incarnation: str | None = None
    expected: str | None = None
    revision: str | None = None
    records: dict[str, list[str]] = {}
    absent: list[str] = []
    expires: str | None = None
    updated: str | None = None
    threads: list[tuple[str, int, int, str, str]] | None = None
    npc: str | None = None
    tail: list[str] | None = None
    appended: int | None = None
    first: int | None = None
    info: tuple[str, int, int, str, str] | None = None
    completed: str | None = None
    begun: bool = False
    mark_stale: bool = False
    own_only: bool = False
    drop_thread: bool = False
    channel: str | None = None
    announcement: str | None = None


class RedisSessionCache:
    """The entries on one server; every method raises StoreUnavailable if the server fails.

    Args:
        origin: the id of this process in its announcements.
        store: the identity of the durable store; entries of another one count as another user's.
    """

    def __init__(self, link: Link, keys: Keys, now: MomentClock, *, origin: str, store: str) -> None:
        self._link = link
        self._keys = keys
        self._now = now
        self._steady = SteadyWall()
        self._origin = origin
        self._store = store
        self._types = cached_records()

    async def read(self, scope: Scope, session_id: str, persona_id: str = "") -> Lookup:
        """The entry of the session, with the messages of one thread, if it belongs to the scope's user."""
        now, answer, *parts = await self._link.run(READ, self._keys_of(scope, session_id, persona_id), (persona_id,))
        metadata = {name.decode(): value for name, value in as_row(answer).items()}
        revision = metadata.get("revision", b"").decode()
        if not parts or "user" not in metadata or metadata["user"].decode() != self._owner(scope):
            return Lookup(None, revision)
        messages, *documents = parts
        read_at = self._now()
        times = ValidationTimes(metadata, int(now), read_at, self._steady.micros(read_at))
        entry = CachedSession(scope.user_id)
        entry.incarnation = metadata.get("incarnation", b"").decode() or None
        for of, document in zip(self._types, documents, strict=True):
            absent = f"none:{of.spec.collection}" in metadata
            if (validated := times.of(f"record:{of.spec.collection}")) and (absent or document):
                entry.records[of] = CachedValue(None if absent else decode(as_row(document), of), validated)
        if (validated := times.of("threads")) and "infos" in metadata:
            entry.threads = CachedValue([_thread(info) for info in _decode_threads(metadata["infos"])], validated)
        if (validated := times.of(f"tail:{persona_id}")) and (tail := decode_all(messages)):
            entry.tails[persona_id] = Tail(tail, validated)
        return Lookup(entry, revision)

    async def fill(self, scope: Scope, session_id: str, revision: str, read: CachedSession) -> None:
        """Cache what was read from the durable store, unless the session has changed since ``revision``.

        ``read`` has at most one tail.
        """
        persona_id, tail = next(iter(read.tails.items()), ("", None))
        parts = {of.spec.collection: part.value for of, part in read.records.items()}
        update = self._update(
            scope,
            expected=revision,
            incarnation=read.incarnation,
            records={collection: _hash_of(stored) for collection, stored in parts.items() if stored},
            absent=[collection for collection, stored in parts.items() if not stored],
            threads=[_packed_thread(info) for info in read.threads.value] if read.threads else None,
            npc=persona_id,
            tail=_newest(tail.messages()) or None if tail else None,
        )
        await self._apply(scope, session_id, persona_id, update)

    async def put(self, scope: Scope, stored: Stored[Any]) -> None:
        """A record was written: a session's own, or one bound to it."""
        record: Record = stored.record
        update = self._change(
            scope,
            record.key,
            incarnation=getattr(record, INCARNATION),
            records={record.spec.collection: _hash_of(stored)},
            begun=type(record) is Session and stored.version == 1,
        )
        await self._apply(scope, record.key, "", update)

    async def append(
        self, scope: Scope, thread: ThreadKey, messages: Sequence[Message], expires_at: datetime | None
    ) -> None:
        """The messages, all of them new, were appended, and the session's end was moved."""
        first, last = messages[0], messages[-1]
        update = self._change(
            scope,
            thread.session_id,
            incarnation=thread.incarnation,
            npc=thread.persona_id,
            tail=_newest(messages),
            appended=last.seq,
            first=first.seq,
            info=_packed_thread(ThreadInfo(thread.persona_id, last.seq, last.turn_id, first.timestamp, last.timestamp)),
            expires=None if expires_at is None else str(to_micros(expires_at)),
            updated=rfc3339(self._now().wall),
        )
        await self._apply(scope, thread.session_id, thread.persona_id, update)

    async def complete(self, scope: Scope, thread: ThreadKey, message: Message) -> None:
        """The message was completed."""
        raw, persona_id = _json(message), thread.persona_id
        if len(raw.encode()) > TAIL_BYTES:
            await self.drop_thread(scope, thread)
            return
        update = self._change(scope, thread.session_id, incarnation=thread.incarnation, npc=persona_id, completed=raw)
        await self._apply(scope, thread.session_id, persona_id, update)

    async def drop_thread(self, scope: Scope, thread: ThreadKey) -> None:
        """Drop one thread from the entry."""
        update = self._change(scope, thread.session_id, npc=thread.persona_id, drop_thread=True)
        await self._apply(scope, thread.session_id, thread.persona_id, update)

    async def mark_stale(self, scope: Scope, session_id: str, *, own_only: bool = False) -> None:
        """Mark the session's entry stale; with ``own_only`` only if it belongs to the scope's user."""
        update = self._change(scope, session_id, mark_stale=True, own_only=own_only)
        await self._apply(scope, session_id, "", update)

    async def drop(self, scope: Scope, session_id: str, persona_ids: Collection[str] = ()) -> None:
        """Delete the session's entry; works on a server that is out of memory, too.

        Args:
            scope: of the session's owner, or former owner.
            session_id: of the entry.
            persona_ids: of its known threads; those that the entry itself lists are deleted too.
        """
        announcement = self._announcement(SessionKey.of(scope, session_id))
        known = set(persona_ids)
        while True:
            named = sorted(known)
            lists = [self._keys.thread(scope, ThreadKey(session_id, persona_id)).messages for persona_id in named]
            metadata, _, *documents = self._keys_of(scope, session_id, "")
            words: list[Word] = [self._owner(scope), secrets.token_hex(8), _milliseconds(TTL), self._keys.changes]
            words += [announcement, len(documents), *named]
            more = await self._link.run(DROP, [metadata, *documents, *lists], words)
            if not more:
                return
            known.update(persona_id.decode() for persona_id in more)

    async def probe(self) -> None:
        """Return if the server answers and accepts writes."""
        await self._link.command("SET", self._keys.probe, "", "PX", 1000)

    def parse_change(self, announcement: bytes) -> SessionKey | None:
        """The session that another process has changed; None if the announcement is this process's own.

        Raises:
            StoreUnavailable: it cannot be parsed, so it may concern any entry.
        """
        try:
            origin, *key = msgspec.json.decode(announcement, type=tuple[str, str, str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnavailable(STORE, f"a message on the invalidation channel cannot be parsed: {error}") from error
        return None if origin == self._origin else SessionKey(*key)

    def _owner(self, scope: Scope) -> str:
        return f"{self._store}/{scope.user_id}"

    def _update(self, scope: Scope, **fields: Any) -> _Update:
        validated = str(self._steady.micros(self._now()))
        collections, user = [of.spec.collection for of in self._types], self._owner(scope)
        return _Update(collections=collections, user=user, validated=validated, ttl=_milliseconds(TTL), **fields)

    def _change(self, scope: Scope, session_id: str, **fields: Any) -> _Update:
        """An update with a new revision, which is announced to other processes."""
        announcement, revision = self._announcement(SessionKey.of(scope, session_id)), secrets.token_hex(8)
        return self._update(scope, revision=revision, channel=self._keys.changes, announcement=announcement, **fields)

    def _announcement(self, key: SessionKey) -> str:
        return msgspec.json.encode([self._origin, *key]).decode()

    async def _apply(self, scope: Scope, session_id: str, persona_id: str, update: _Update) -> None:
        await self._link.run(APPLY, self._keys_of(scope, session_id, persona_id), (_pack(update),))

    def _keys_of(self, scope: Scope, session_id: str, persona_id: str) -> list[str]:
        """The metadata, the messages of a thread, and the record of each type."""
        messages = self._keys.thread(scope, ThreadKey(session_id, persona_id)).messages
        documents = [self._keys.document(scope, of, session_id) for of in self._types]
        return [self._keys.cache_entry(scope, session_id), messages, *documents]


def _hash_of(stored: Stored[Any]) -> list[str]:
    """The hash of a record, as :class:`wenmai.stores.redis.documents.RedisDocuments` writes it."""
    pairs, _ = encode(stored.record)
    fields = ("_version", str(stored.version), "_user", stored.user_id, "_created", str(to_micros(stored.created_at)))
    return [*pairs, *fields, "updated_at", rfc3339(stored.updated_at)]


def _json(message: Message) -> str:
    # Text, because the MessagePack of the server has no bytes.
    return encode_message(message).decode()


def _newest(messages: Sequence[Message]) -> list[str]:
    """As many of the newest as fit into an entry; none if the newest alone is too large."""
    kept: list[str] = []
    size = 0
    for message in reversed(messages[-TAIL_MESSAGES:]):
        raw = _json(message)
        size += len(raw.encode())
        if size > TAIL_BYTES:
            break
        kept.append(raw)
    return kept[::-1]


def _packed_thread(info: ThreadInfo) -> tuple[str, int, int, str, str]:
    return info.persona_id, info.message_count, info.turn_count, info.first_at.isoformat(), info.last_at.isoformat()


def _thread(packed: tuple[str, int, int, str, str]) -> ThreadInfo:
    persona_id, messages, turns, first_at, last_at = packed
    return ThreadInfo(persona_id, messages, turns, datetime.fromisoformat(first_at), datetime.fromisoformat(last_at))


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
