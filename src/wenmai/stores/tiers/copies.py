"""What the upper tiers hold of a session: copies, each with the moment at which the durable store vouched for it.

A copy answers a read only for the session's owner, and only while it is trusted (see :mod:`.trust`); past that it is
kept as what can still be said when the durable store does not answer. What cannot be packed, such as an integer of more
than 64 bits, raises here; those who keep copies drop the copy then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from wenmai.scope import Scope
from wenmai.stores.base import Stored, ThreadInfo
from wenmai.stores.records import Message, Preferences, Session
from wenmai.stores.tiers.trust import LONG_AGO, Moment

V = TypeVar("V")

TAIL_MESSAGES = 64
"""The newest messages of a thread that are copied; twice what a page of a transcript and a window need."""

TAIL_BYTES = 65_536
"""As they are encoded; of a thread with longer messages fewer are copied."""

_OVERHEAD = 400
"""About what a record or a thread takes of memory beside its texts, in bytes."""

_ENTRY_OVERHEAD = 150
"""The same of a packed message."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(Message).decode


class SessionKey(NamedTuple):
    """A session over all users: whose it is, is checked in the copy."""

    tenant_id: str
    site_id: str
    session_id: str

    @classmethod
    def of(cls, scope: Scope, session_id: str) -> "SessionKey":
        """The session that the scope calls so."""
        return cls(scope.tenant_id, scope.site_id, session_id)


class Piece(msgspec.Struct, Generic[V], frozen=True):
    """A copied value, and when the durable store last vouched for it."""

    value: V
    checked_at: Moment


class _Entry(NamedTuple):
    """A message, packed: it takes a third of the memory, and nobody can change it."""

    seq: int
    turn_id: int
    completed: bool
    opens: bool
    raw: bytes


class Tail:
    """The newest messages of a thread up to its end, without a gap, unfinished ones too; never none."""

    def __init__(self, messages: Sequence[Message], checked_at: Moment) -> None:
        self.checked_at = checked_at
        self._entries: list[_Entry] = []
        self._bytes = 0
        self._finished = True
        self._add(messages)

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        return self._bytes + _ENTRY_OVERHEAD * len(self._entries)

    @property
    def last_seq(self) -> int:
        """The number of the thread's last message."""
        return self._entries[-1].seq

    def newest(self, limit: int, *, whole_turns: bool) -> list[Message] | None:
        """What :meth:`wenmai.stores.base.Logs.latest` would give; None if that reaches further back."""
        known = self._entries
        newest = known[-limit:]
        if len(newest) == limit and self._finished and newest[0].turn_id != known[0].turn_id:
            # Nearly every read of a talk: nothing is to be left out.
            return [_unpack(entry.raw) for entry in newest]
        from_start = known[0].seq == 1
        if whole_turns:
            unfinished = {entry.turn_id for entry in known if not entry.completed}
            if not known[0].opens and not from_start:
                # The beginning of this turn is further back, and may be unfinished.
                unfinished.add(known[0].turn_id)
            if unfinished:
                known = [entry for entry in known if entry.turn_id not in unfinished]
        if len(known) < limit and not from_start:
            return None
        return [_unpack(entry.raw) for entry in known[-limit:]]

    def messages(self) -> list[Message]:
        """All of them, ascending."""
        return [_unpack(entry.raw) for entry in self._entries]

    def grow(self, messages: Sequence[Message]) -> bool:
        """Take in what was appended; False if it does not follow what is here."""
        if messages[0].seq != self.last_seq + 1:
            return False
        self._add(messages)
        return True

    def holds(self, message: Message) -> bool:
        """Whether this very message is here, and not another one of its number, of a thread erased meanwhile."""
        position = message.seq - self._entries[0].seq
        return 0 <= position < len(self._entries) and _unpack(self._entries[position].raw).id == message.id

    def settle(self, message: Message) -> None:
        """Take in a message that was filled; nothing if it is further back."""
        position = message.seq - self._entries[0].seq
        if self.holds(message):
            self._bytes -= len(self._entries[position].raw)
            self._entries[position] = _entry(message)
            self._bytes += len(self._entries[position].raw)
            self._finished = all(entry.completed for entry in self._entries)

    def _add(self, messages: Sequence[Message]) -> None:
        added: list[_Entry] = []
        size = 0
        # From the newest back, so that what is too much is not packed.
        for message in reversed(messages[-TAIL_MESSAGES:]):
            if size > TAIL_BYTES:
                break
            added.append(_entry(message))
            size += len(added[-1].raw)
        if len(added) < len(messages):
            self._entries.clear()
            self._bytes = 0
        self._entries += reversed(added)
        self._bytes += size
        cut = max(0, len(self._entries) - TAIL_MESSAGES)
        dropped = sum(len(entry.raw) for entry in self._entries[:cut])
        while self._bytes - dropped > TAIL_BYTES and cut < len(self._entries) - 1:
            dropped += len(self._entries[cut].raw)
            cut += 1
        if cut:
            del self._entries[:cut]
            self._bytes -= dropped
        self._finished = all(entry.completed for entry in self._entries)


def _entry(message: Message) -> _Entry:
    return _Entry(message.seq, message.turn_id, message.completed, message.role == "user", _pack(message))


class SessionCopy:
    """What is copied of one session; each part may be missing.

    Attributes:
        owner: the user whose it is.
        incarnation: of the session; all parts but the knowledge that there are no preferences are of this one.
            None as long as there is no such part.
        session: its record.
        preferences: its preferences; a piece of None says that there are none.
        threads: its threads, in the order in which they began.
        tails: by persona.
    """

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.incarnation: str | None = None
        self.session: Piece[Stored[Session]] | None = None
        self.preferences: Piece[Stored[Preferences] | None] | None = None
        self.threads: Piece[list[ThreadInfo]] | None = None
        self.tails: dict[str, Tail] = {}

    @property
    def size(self) -> int:
        """About how many bytes of memory it takes."""
        records = [piece.value for piece in (self.session, self.preferences) if piece and piece.value]
        texts = sum(len(_pack(stored.record)) for stored in records)
        threads = len(self.threads.value) if self.threads else 0
        tails = sum(tail.size for tail in self.tails.values())
        return texts + tails + _OVERHEAD * (1 + len(records) + threads + len(self.tails))

    @property
    def owned(self) -> bool:
        """Whether what is copied shows that the session is the owner's; nothing does not, it may be a stranger's."""
        preferences, threads = self.preferences, self.threads
        return bool(self.session or self.tails or (preferences and preferences.value) or (threads and threads.value))

    @property
    def may_be_kept(self) -> bool:
        """Whether something is copied, and of a known incarnation; that there are no preferences needs none."""
        preferences = self.preferences and self.preferences.value
        if self.session or preferences or self.threads or self.tails:
            return self.incarnation is not None
        return self.preferences is not None

    def take(self, other: "SessionCopy") -> None:
        """Take over the parts of a copy of the same session that has been checked later."""
        self.incarnation = self.incarnation or other.incarnation
        self.session = _later(self.session, other.session)
        self.preferences = _later(self.preferences, other.preferences)
        self.threads = _later(self.threads, other.threads)
        for npc_id, tail in other.tails.items():
            mine = self.tails.get(npc_id)
            if mine is None or mine.checked_at.running <= tail.checked_at.running:
                self.tails[npc_id] = tail

    def grow(self, npc_id: str, messages: Sequence[Message], now: Moment) -> None:
        """Take in what was appended to a thread, all of it new; what it does not fit is forgotten."""
        tail = self.tails.get(npc_id)
        if tail is None or (tail.last_seq < messages[-1].seq and not tail.grow(messages)):
            self.tails[npc_id] = Tail(messages, now)
        elif not tail.holds(messages[-1]):
            # It came late, or the thread was erased and begins again: who is right is not known here.
            del self.tails[npc_id]
        if self.threads is not None:
            grown = _grown(self.threads.value, npc_id, messages)
            self.threads = None if grown is None else Piece(grown, self.threads.checked_at)

    def slide(self, now: datetime) -> datetime | None:
        """Move the session's end as an append does; where it is now, None if the record is not copied."""
        if self.session is None:
            return None
        stored = self.session.value
        end = max(stored.record.expires_at, now + timedelta(seconds=stored.record.lifetime_seconds))
        record = msgspec.structs.replace(stored.record, expires_at=end)
        self.session = Piece(msgspec.structs.replace(stored, record=record, updated_at=now), self.session.checked_at)
        return end

    def doubt(self) -> None:
        """Trust none of it any more."""
        self.session = self.session and Piece(self.session.value, LONG_AGO)
        self.preferences = self.preferences and Piece(self.preferences.value, LONG_AGO)
        self.threads = self.threads and Piece(self.threads.value, LONG_AGO)
        for tail in self.tails.values():
            tail.checked_at = LONG_AGO

    def forget_thread(self, npc_id: str) -> None:
        """Forget what is known of one thread."""
        self.tails.pop(npc_id, None)
        self.threads = None


def _grown(threads: list[ThreadInfo], npc_id: str, messages: Sequence[Message]) -> list[ThreadInfo] | None:
    """The threads after the append; None if messages are missing in between, or two threads may have begun at once."""
    first, last = messages[0], messages[-1]
    fresh = ThreadInfo(npc_id, last.seq, last.turn_id, first.timestamp, last.timestamp)
    for position, info in enumerate(threads):
        if info.npc_id == npc_id:
            if info.message_count != first.seq - 1:
                return None
            known = msgspec.structs.replace(fresh, first_at=info.first_at)
            return [*threads[:position], known, *threads[position + 1 :]]
    return [fresh] if first.seq == 1 and not threads else None


def latest(mine: Piece[Any] | None, written: Piece[Any]) -> Piece[Any]:
    """Of a copied record and one just written, the later by creation, then by version: words may come late."""
    known = mine and mine.value
    if mine and known and _age(known) > _age(written.value):
        return mine
    return written


def _age(stored: Stored[Any]) -> tuple[datetime, int]:
    return stored.created_at, stored.version


def _later(mine: Piece[V] | None, other: Piece[V] | None) -> Piece[V] | None:
    if mine is None or other is None:
        return mine or other
    return other if other.checked_at.running >= mine.checked_at.running else mine
