"""The tier on Redis: what of sessions is copied for all processes, in the formats that other programs read."""

import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, TypeVar

import msgspec

from wenmai.clock import to_micros
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Stored, ThreadInfo
from wenmai.stores.records import Message, Preferences, Record, Session
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import STORE, Link, Word
from wenmai.stores.redis.messages import decode_all
from wenmai.stores.redis.messages import encode as encode_message
from wenmai.stores.redis.rows import as_row, decode, encode, rfc3339
from wenmai.stores.tiers.ages import Ages
from wenmai.stores.tiers.copies import TAIL_BYTES, TAIL_MESSAGES, Piece, SessionCopy, SessionKey, Tail
from wenmai.stores.tiers.scripts import APPLY, DROP, READ
from wenmai.stores.tiers.trust import Moments

R = TypeVar("R", bound=Record)

KEPT = timedelta(hours=1)
"""How long a copy stays after its last change: past that nobody is likely to ask, and the durable store has it."""

_pack = msgspec.msgpack.Encoder().encode
_unpack_infos = msgspec.msgpack.Decoder(list[tuple[str, int, int, str, str]]).decode


class Seen(NamedTuple):
    """What was read.

    Attributes:
        copy: None if nothing is copied, or for somebody else.
        revision: of the session's copy, for :meth:`SessionCopies.fill`.
    """

    copy: SessionCopy | None
    revision: str


class _Ask(msgspec.Struct, omit_defaults=True, kw_only=True):
    """What the script is asked to do; what is left out is left alone.

    Attributes:
        user: whose the session is, and in which durable store.
        incarnation: of the session. A copy of another one is dropped; a change is then not kept, for which of the two
            the session is cannot be told, unless its record says that it began later.
        expected: do nothing unless this is the revision; what was read when there was none is never kept, for whether
            there was a change since cannot be told.
        revision: the new one.
        checked: when the durable store was asked, in microseconds.
        keep: milliseconds until what is written goes by itself.
        tail: the newest messages of the persona's thread, or, with ``appended``, those that were just appended; none if
            the newest alone is too large for a copy.
        appended: the number of the last of them; ``first`` that of the first, ``info`` the thread afterwards.
        fresh: the session was begun just now, so it has neither preferences nor threads.
        doubt: nothing that is copied is trusted any more, whoever asks; it is kept for when the durable store is gone.
        own: doubt it only if it is the user's.
        forget: the persona's thread is not known any more.
        channel, change: where to tell other processes, and what.
    """

    user: str
    checked: str
    keep: int
    incarnation: str | None = None
    expected: str | None = None
    revision: str | None = None
    record: list[str] | None = None
    expires: str | None = None
    updated: str | None = None
    preferences: list[str] | None = None
    no_preferences: bool = False
    threads: list[tuple[str, int, int, str, str]] | None = None
    npc: str | None = None
    tail: list[str] | None = None
    appended: int | None = None
    first: int | None = None
    info: tuple[str, int, int, str, str] | None = None
    settled: str | None = None
    fresh: bool = False
    doubt: bool = False
    own: bool = False
    forget: bool = False
    channel: str | None = None
    change: str | None = None


class SessionCopies:
    """The copies on one server; raises StoreUnavailable where the server fails.

    Args:
        origin: names this process in what others are told.
        store: names the durable store; copies of another one on the same server are as good as a stranger's.
    """

    def __init__(self, link: Link, keys: Keys, now: Moments, *, origin: str, store: str) -> None:
        self._link = link
        self._keys = keys
        self._now = now
        self._origin = origin
        self._store = store

    async def read(self, scope: Scope, session_id: str, npc_id: str = "") -> Seen:
        """What is copied of the session, with the messages of one thread, if it is the scope's."""
        now, marks, *parts = await self._link.run(READ, self._names(scope, session_id, npc_id), (npc_id,))
        told = {name.decode(): value for name, value in as_row(marks).items()}
        revision = told.get("revision", b"").decode()
        if not parts or "user" not in told or told["user"].decode() != self._owner(scope):
            return Seen(None, revision)
        record, preferences, messages = parts
        ages = Ages(told, int(now), self._now())
        copy = SessionCopy(scope.user_id)
        copy.incarnation = told.get("incarnation", b"").decode() or None
        if (checked := ages.checked("record")) and record:
            copy.session = Piece(decode(as_row(record), Session), checked)
        if (checked := ages.checked("preferences")) and ("none" in told or preferences):
            copy.preferences = Piece(None if "none" in told else decode(as_row(preferences), Preferences), checked)
        if (checked := ages.checked("threads")) and "infos" in told:
            copy.threads = Piece([_info(info) for info in _unpack_infos(told["infos"])], checked)
        if (checked := ages.checked(f"tail:{npc_id}")) and (tail := decode_all(messages)):
            copy.tails[npc_id] = Tail(tail, checked)
        return Seen(copy, revision)

    async def fill(self, scope: Scope, session_id: str, revision: str, found: SessionCopy) -> None:
        """Keep what the durable store was found to hold, unless the session has changed since ``revision``.

        ``found`` holds at most one tail.
        """
        npc_id, tail = next(iter(found.tails.items()), ("", None))
        session, preferences = found.session, found.preferences
        ask = self._ask(
            scope,
            expected=revision,
            incarnation=found.incarnation,
            record=_words(session.value) if session else None,
            preferences=_words(preferences.value) if preferences and preferences.value else None,
            no_preferences=preferences is not None and preferences.value is None,
            threads=[_told(info) for info in found.threads.value] if found.threads else None,
            npc=npc_id,
            tail=_newest(tail.messages()) or None if tail else None,
        )
        await self._apply(scope, session_id, npc_id, ask)

    async def put_session(self, scope: Scope, stored: Stored[Session]) -> None:
        """The session's record was written; a new session has neither preferences nor threads."""
        session_id = stored.record.session_id
        ask = self._change(
            scope,
            session_id,
            incarnation=stored.record.incarnation,
            record=_words(stored),
            fresh=stored.version == 1,
        )
        await self._apply(scope, session_id, "", ask)

    async def put_preferences(self, scope: Scope, stored: Stored[Preferences]) -> None:
        """The session's preferences were written."""
        session_id, incarnation = stored.record.session_id, stored.record.incarnation
        ask = self._change(scope, session_id, incarnation=incarnation, preferences=_words(stored))
        await self._apply(scope, session_id, "", ask)

    async def append(
        self, scope: Scope, thread: ThreadKey, messages: Sequence[Message], expires_at: datetime | None
    ) -> None:
        """The messages, all of them new, were appended, and the session's end was moved."""
        first, last = messages[0], messages[-1]
        ask = self._change(
            scope,
            thread.session_id,
            incarnation=thread.incarnation,
            npc=thread.npc_id,
            tail=_newest(messages),
            appended=last.seq,
            first=first.seq,
            info=_told(ThreadInfo(thread.npc_id, last.seq, last.turn_id, first.timestamp, last.timestamp)),
            expires=None if expires_at is None else str(to_micros(expires_at)),
            updated=rfc3339(self._now().wall),
        )
        await self._apply(scope, thread.session_id, thread.npc_id, ask)

    async def settle(self, scope: Scope, thread: ThreadKey, message: Message) -> None:
        """The message was filled."""
        settled = _json(message)
        if len(settled.encode()) > TAIL_BYTES:
            await self.forget_thread(scope, thread)
            return
        ask = self._change(scope, thread.session_id, incarnation=thread.incarnation, npc=thread.npc_id, settled=settled)
        await self._apply(scope, thread.session_id, thread.npc_id, ask)

    async def forget_thread(self, scope: Scope, thread: ThreadKey) -> None:
        """The thread is not as it was copied."""
        ask = self._change(scope, thread.session_id, npc=thread.npc_id, forget=True)
        await self._apply(scope, thread.session_id, thread.npc_id, ask)

    async def doubt(self, scope: Scope, session_id: str, *, own: bool = False) -> None:
        """What is copied of the session, or what is copied of it for the scope's user, may not be so any more."""
        await self._apply(scope, session_id, "", self._change(scope, session_id, doubt=True, own=own))

    async def drop(self, scope: Scope, session_id: str, npc_ids: Collection[str] = ()) -> None:
        """Remove all that is copied of the scope's session, also from a server that has no memory left to write.

        Args:
            scope: whose it is, or was.
            session_id: all of it.
            npc_ids: of its threads that are known; those that the copy itself names go too.
        """
        told = self._told(SessionKey.of(scope, session_id))
        known = set(npc_ids)
        while True:
            named = sorted(known)
            lists = [self._keys.thread(scope, ThreadKey(session_id, npc_id)).messages for npc_id in named]
            keys = [*self._names(scope, session_id, "")[:3], *lists]
            tell: list[Word] = [self._owner(scope), secrets.token_hex(8), _milliseconds(KEPT), self._keys.changes, told]
            more = await self._link.run(DROP, keys, [*tell, *named])
            if not more:
                return
            known.update(npc_id.decode() for npc_id in more)

    async def probe(self) -> None:
        """Return if the server answers and takes writes."""
        await self._link.command("SET", self._keys.probe, "", "PX", 1000)

    def changed(self, told: bytes) -> SessionKey | None:
        """The session whose change another process announces; None if the announcement is this process's own.

        Raises:
            StoreUnavailable: it cannot be read, so any copy may be meant.
        """
        try:
            origin, *key = msgspec.json.decode(told, type=tuple[str, str, str, str])
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StoreUnavailable(STORE, f"a change cannot be read: {error}") from error
        return None if origin == self._origin else SessionKey(*key)

    def _owner(self, scope: Scope) -> str:
        return f"{self._store}/{scope.user_id}"

    def _ask(self, scope: Scope, **asked: Any) -> _Ask:
        checked = str(to_micros(self._now().wall))
        return _Ask(user=self._owner(scope), checked=checked, keep=_milliseconds(KEPT), **asked)

    def _change(self, scope: Scope, session_id: str, **asked: Any) -> _Ask:
        told = self._told(SessionKey.of(scope, session_id))
        return self._ask(scope, revision=secrets.token_hex(8), channel=self._keys.changes, change=told, **asked)

    def _told(self, key: SessionKey) -> str:
        return msgspec.json.encode([self._origin, *key]).decode()

    async def _apply(self, scope: Scope, session_id: str, npc_id: str, ask: _Ask) -> None:
        await self._link.run(APPLY, self._names(scope, session_id, npc_id), (_pack(ask),))

    def _names(self, scope: Scope, session_id: str, npc_id: str) -> tuple[str, str, str, str]:
        return (
            self._keys.copy(scope, session_id),
            self._keys.document(scope, Session, session_id),
            self._keys.document(scope, Preferences, session_id),
            self._keys.thread(scope, ThreadKey(session_id, npc_id)).messages,
        )


def _words(stored: Stored[Any]) -> list[str]:
    """The hash of a record, as :class:`wenmai.stores.redis.documents.RedisDocuments` would write it."""
    pairs, _ = encode(stored.record)
    known = ("_version", str(stored.version), "_user", stored.user_id, "_created", str(to_micros(stored.created_at)))
    return [*pairs, *known, "updated_at", rfc3339(stored.updated_at)]


def _json(message: Message) -> str:
    # Text, because the server's MessagePack knows no bytes.
    return encode_message(message).decode()


def _newest(messages: Sequence[Message]) -> list[str]:
    """As many of the newest as a copy holds; none if the newest alone is too large for it."""
    kept: list[str] = []
    size = 0
    for message in reversed(messages[-TAIL_MESSAGES:]):
        raw = _json(message)
        size += len(raw.encode())
        if size > TAIL_BYTES:
            break
        kept.append(raw)
    return kept[::-1]


def _told(info: ThreadInfo) -> tuple[str, int, int, str, str]:
    return info.npc_id, info.message_count, info.turn_count, info.first_at.isoformat(), info.last_at.isoformat()


def _info(told: tuple[str, int, int, str, str]) -> ThreadInfo:
    npc_id, messages, turns, first_at, last_at = told
    return ThreadInfo(npc_id, messages, turns, datetime.fromisoformat(first_at), datetime.fromisoformat(last_at))


def _milliseconds(span: timedelta) -> int:
    return span // timedelta(milliseconds=1)
