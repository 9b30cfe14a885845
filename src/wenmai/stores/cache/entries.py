"""Cache entries: what is cached of a session, each part with the time at which it was validated.

An entry answers reads of the session's owner only, and only while it is fresh (see :mod:`.freshness`); a stale one is a
fallback for when the durable store is unavailable. A value that cannot be packed, such as an integer of more than 64
bits, raises here; the caller then drops the entry.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from wenmai.scope import Scope
from wenmai.stores.cache.freshness import LONG_AGO, Moment
from wenmai.stores.records import Message, Record, Session, cached_records
from wenmai.stores.structs import Stored, ThreadInfo

V = TypeVar("V")

TAIL_MESSAGES = 64
"""How many of a thread's newest messages are cached; twice what a page of a transcript and a window need."""

TAIL_BYTES = 65_536
"""Their encoded size; of a thread with longer messages fewer are cached."""

_OVERHEAD = 400
"""About the memory of a record or a thread beside its texts, in bytes."""

_MESSAGE_OVERHEAD = 150
"""The same for a packed message."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Message).decode


class SessionKey(NamedTuple):
    """A session of any user; the owner is checked in the entry."""

    tenant_id: str
    site_id: str
    session_id: str

    @classmethod
    def of(cls, scope: Scope, session_id: str) -> "SessionKey":
        """The key of this session id in the scope."""
        return cls(scope.tenant_id, scope.site_id, session_id)


class CachedValue(msgspec.Struct, Generic[V], frozen=True):
    """A cached value, and when it was last validated."""

    value: V
    validated_at: Moment


class _PackedMessage(NamedTuple):
    """A packed message: immutable, and a third of the memory."""

    seq: int
    turn_id: int
    completed: bool
    starts_turn: bool
    raw: bytes


class Tail:
    """The newest messages of a thread up to its end, without a gap, uncompleted ones too; never empty."""

    def __init__(self, messages: Sequence[Message], validated_at: Moment) -> None:
        self.validated_at = validated_at
        self._messages: list[_PackedMessage] = []
        self._bytes = 0
        self._all_completed = True
        self._add(messages)

    @property
    def size(self) -> int:
        """Its memory in bytes, about."""
        return self._bytes + _MESSAGE_OVERHEAD * len(self._messages)

    @property
    def last_seq(self) -> int:
        """The number of the thread's last message."""
        return self._messages[-1].seq

    def newest(self, limit: int, *, whole_turns: bool) -> list[Message] | None:
        """The result of :meth:`wenmai.stores.contracts.Logs.latest`; None if that reaches further back."""
        messages = self._messages
        newest = messages[-limit:]
        if len(newest) == limit and self._all_completed and newest[0].turn_id != messages[0].turn_id:
            # The usual case: no message is to be left out.
            return [_unpack(message.raw) for message in newest]
        from_start = messages[0].seq == 1
        if whole_turns:
            uncompleted = {message.turn_id for message in messages if not message.completed}
            if not messages[0].starts_turn and not from_start:
                # The start of this turn is further back, and may be uncompleted.
                uncompleted.add(messages[0].turn_id)
            if uncompleted:
                messages = [message for message in messages if message.turn_id not in uncompleted]
        if len(messages) < limit and not from_start:
            return None
        return [_unpack(message.raw) for message in messages[-limit:]]

    def messages(self) -> list[Message]:
        """All of them, ascending."""
        return [_unpack(message.raw) for message in self._messages]

    def extend(self, messages: Sequence[Message]) -> bool:
        """Add appended messages; False if they do not follow the last one."""
        if messages[0].seq != self.last_seq + 1:
            return False
        self._add(messages)
        return True

    def contains(self, message: Message) -> bool:
        """Whether this message is here, and not another one with its number from a thread that was erased meanwhile."""
        position = message.seq - self._messages[0].seq
        return 0 <= position < len(self._messages) and _unpack(self._messages[position].raw).id == message.id

    def complete(self, message: Message) -> None:
        """Replace a message that was completed; ignored if it is further back."""
        position = message.seq - self._messages[0].seq
        if self.contains(message):
            self._bytes -= len(self._messages[position].raw)
            self._messages[position] = _packed(message)
            self._bytes += len(self._messages[position].raw)
            self._all_completed = all(message.completed for message in self._messages)

    def _add(self, messages: Sequence[Message]) -> None:
        added: list[_PackedMessage] = []
        size = 0
        # From the newest back, so that no message beyond the limits is packed.
        for message in reversed(messages[-TAIL_MESSAGES:]):
            if size > TAIL_BYTES:
                break
            added.append(_packed(message))
            size += len(added[-1].raw)
        if len(added) < len(messages):
            self._messages.clear()
            self._bytes = 0
        self._messages += reversed(added)
        self._bytes += size
        cut = max(0, len(self._messages) - TAIL_MESSAGES)
        dropped = sum(len(message.raw) for message in self._messages[:cut])
        while self._bytes - dropped > TAIL_BYTES and cut < len(self._messages) - 1:
            dropped += len(self._messages[cut].raw)
            cut += 1
        if cut:
            del self._messages[:cut]
            self._bytes -= dropped
        self._all_completed = all(message.completed for message in self._messages)


def _packed(message: Message) -> _PackedMessage:
    return _PackedMessage(message.seq, message.turn_id, message.completed, message.role == "user", _pack(message))


class CachedSession:
    """The cache entry of one session; each part may be missing.

    Attributes:
        owner: the user that the session belongs to.
        incarnation: of the session, and so of all parts except the absence of a record; None while there is no other
            part.
        records: its own record and those bound to it, by type; a cached None means that there is none.
        threads: its threads, in the order in which they began.
        tails: the newest messages, by persona.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.incarnation: str | None = None
        self.records: dict[type[Record], CachedValue[Stored[Any] | None]] = {}
        self.threads: CachedValue[list[ThreadInfo]] | None = None
        self.tails: dict[str, Tail] = {}

    @property
    def size(self) -> int:
        """Its memory in bytes, about."""
        records = self._present()
        texts = sum(len(_pack(stored.record)) for stored in records)
        threads = len(self.threads.value) if self.threads else 0
        tails = sum(tail.size for tail in self.tails.values())
        return texts + tails + _OVERHEAD * (1 + len(records) + threads + len(self.tails))

    @property
    def proves_ownership(self) -> bool:
        """Whether a part proves that the session is the owner's; an absence proves nothing."""
        return bool(self._present() or self.tails or (self.threads and self.threads.value))

    @property
    def cacheable(self) -> bool:
        """Whether there is a part of a known incarnation; the absence of a record needs no incarnation."""
        if self._present() or self.threads or self.tails:
            return self.incarnation is not None
        return bool(self.records)

    def _present(self) -> list[Stored[Any]]:
        """The cached records, without absences."""
        return [part.value for part in self.records.values() if part.value]

    def put(self, stored: Stored[Any], now: Moment) -> None:
        """Update a record that was written; a new session has no other parts yet."""
        of = type(stored.record)
        latest = _later_record(self.records.get(of), CachedValue(stored, now))
        if of is Session and stored.version == 1:
            self.records = {bound: CachedValue(None, now) for bound in cached_records()}
            self.threads, self.tails = CachedValue([], now), {}
        self.records[of] = latest

    def merge(self, other: "CachedSession") -> None:
        """Take over those parts of another entry of the session that were validated later."""
        self.incarnation = self.incarnation or other.incarnation
        for of, part in other.records.items():
            self.records[of] = _newer(self.records.get(of), part) or part
        self.threads = _newer(self.threads, other.threads)
        for persona_id, tail in other.tails.items():
            own = self.tails.get(persona_id)
            if own is None or own.validated_at.monotonic <= tail.validated_at.monotonic:
                self.tails[persona_id] = tail

    def extend(self, persona_id: str, messages: Sequence[Message], now: Moment) -> None:
        """Add messages appended to a thread, all of them new; parts that they do not fit are dropped."""
        tail = self.tails.get(persona_id)
        if tail is None or (tail.last_seq < messages[-1].seq and not tail.extend(messages)):
            self.tails[persona_id] = Tail(messages, now)
        elif not tail.contains(messages[-1]):
            # The append came late, or the thread was erased and begins again: which one is unknown here.
            del self.tails[persona_id]
        if self.threads is not None:
            extended = _extended(self.threads.value, persona_id, messages)
            self.threads = None if extended is None else CachedValue(extended, self.threads.validated_at)

    def slide(self, now: datetime) -> datetime | None:
        """Move the session's end as an append does; returns the new end, None if the record is not cached."""
        cached = self.records.get(Session)
        if cached is None or cached.value is None:
            return None
        stored = cached.value
        end: datetime = max(stored.record.expires_at, now + timedelta(seconds=stored.record.lifetime_seconds))
        record = msgspec.structs.replace(stored.record, expires_at=end)
        moved = msgspec.structs.replace(stored, record=record, updated_at=now)
        self.records[Session] = CachedValue(moved, cached.validated_at)
        return end

    def mark_stale(self) -> None:
        """Mark all parts stale."""
        self.records = {of: CachedValue(part.value, LONG_AGO) for of, part in self.records.items()}
        self.threads = self.threads and CachedValue(self.threads.value, LONG_AGO)
        for tail in self.tails.values():
            tail.validated_at = LONG_AGO

    def drop_thread(self, persona_id: str) -> None:
        """Drop one thread's messages, and the list of threads."""
        self.tails.pop(persona_id, None)
        self.threads = None


def _extended(threads: list[ThreadInfo], persona_id: str, messages: Sequence[Message]) -> list[ThreadInfo] | None:
    """The threads after an append; None if messages are missing in between, or two threads may have begun at once."""
    first, last = messages[0], messages[-1]
    begun = ThreadInfo(persona_id, last.seq, last.turn_id, first.timestamp, last.timestamp)
    for position, info in enumerate(threads):
        if info.persona_id == persona_id:
            if info.message_count != first.seq - 1:
                return None
            extended = msgspec.structs.replace(begun, first_at=info.first_at)
            return [*threads[:position], extended, *threads[position + 1 :]]
    return [begun] if first.seq == 1 and not threads else None


def _later_record(cached: CachedValue[Any] | None, written: CachedValue[Any]) -> CachedValue[Any]:
    """The later of a cached record and one just written, by creation, then by version: a write may arrive late."""
    stored = cached and cached.value
    if cached and stored and _order(stored) > _order(written.value):
        return cached
    return written


def _order(stored: Stored[Any]) -> tuple[datetime, int]:
    return stored.created_at, stored.version


def _newer(one: CachedValue[V] | None, other: CachedValue[V] | None) -> CachedValue[V] | None:
    if one is None or other is None:
        return one or other
    return other if other.validated_at.monotonic >= one.validated_at.monotonic else one
