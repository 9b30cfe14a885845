"""The logs contract on SQLite: messages clustered by thread and number, numbered in the inserting transaction."""

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import apsw

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import SLIDE_STEP
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.sqlite.connection_threads import ConnectionThreads, fetch
from wenmai.stores.sqlite.messages import COLUMNS, generated_id, to_json, to_message, to_row
from wenmai.stores.sqlite.purging import detach, purge
from wenmai.stores.sqlite.write_cache import CachedSession, CachedThread, ThreadRow, WriteCache
from wenmai.stores.structs import ActiveThread, ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import MAX_EXAMINED, check_key, check_range, cursor_number
from wenmai.stores.values import check_completion, check_messages, check_owner, check_parts, check_read

APPEND_LIMIT = 1_000
READ_LIMIT = 10_000
_SLIDE_STEP_MICROS = SLIDE_STEP.seconds * 1_000_000

_FIND = """
SELECT t.thread, t.label, c.row, c.incarnation, c.expires_at, c.keep_until, c.lifetime_seconds
FROM conversations c LEFT JOIN threads t ON t.incarnation = c.incarnation AND t.npc_id = ?
WHERE c.tenant_id = ? AND c.site_id = ? AND c.session_id = ? AND c.user_id = ?
  AND (c.keep_until IS NULL OR c.keep_until > ?)"""
_LAST = "SELECT seq, turn_id FROM messages WHERE thread = ? ORDER BY seq DESC LIMIT 1"
_INSERT = f"INSERT INTO messages (thread, {COLUMNS}) VALUES ({', '.join('?' * 13)})"
_SLIDE = "UPDATE conversations SET expires_at = ?, updated_at = ? WHERE row = ?"
_LATEST = f"SELECT {COLUMNS} FROM messages WHERE thread = ? AND seq < ? ORDER BY seq DESC LIMIT ?"
_LATEST_WHOLE = f"""
SELECT {COLUMNS} FROM messages WHERE thread = ?1 AND seq < ?2 AND turn_id NOT IN
  (SELECT turn_id FROM messages WHERE thread = ?1 AND completed = 0)
ORDER BY seq DESC LIMIT ?3"""
_FROM = f"SELECT {COLUMNS} FROM messages WHERE thread = ? AND seq >= ? ORDER BY seq LIMIT ?"
_BY_GIVEN_ID = f"SELECT {COLUMNS} FROM messages WHERE thread = ? AND given_id = ?"
_BY_SEQ = f"SELECT {COLUMNS} FROM messages WHERE thread = ? AND seq = ?"
_ACTIVE = """
SELECT c.row, c.tenant_id, c.site_id, c.user_id, c.session_id, c.incarnation, c.updated_at, t.npc_id,
  (SELECT max(seq) FROM messages m WHERE m.thread = t.thread)
FROM (SELECT * FROM conversations WHERE row > ?1 ORDER BY row LIMIT ?2) c
LEFT JOIN threads t ON t.incarnation = c.incarnation AND (c.keep_until IS NULL OR c.keep_until > ?3)
  AND (?4 IS NULL OR c.updated_at > ?4)
ORDER BY c.row"""
_END = 1 << 62
# An erased thread is detached from its session at once and then removed in batches; the next sweep removes any rest.


class _Target(NamedTuple):
    """The session row of a thread key, and the thread, which is None before its first message."""

    thread: ThreadRow | None
    row: int
    incarnation: str
    expires_at: int
    keep_until: int | None
    lifetime_micros: int


class SqliteLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, connections: ConnectionThreads, clock: Clock) -> None:
        self._connections = connections
        self._clock = clock
        self._cache: WriteCache | None = None

    def _write_cache(self, connection: apsw.Connection) -> WriteCache:
        """The writer's cache; only for the writer thread."""
        if self._cache is None:
            self._cache = WriteCache(connection, lambda: self._connections.commits)
        return self._cache

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        """See :meth:`wenmai.stores.contracts.Logs.append`."""
        check_range("messages", len(messages), 1, APPEND_LIMIT)
        check_range("tail", tail, 0, READ_LIMIT)
        check_owner(scope, thread.session_id, thread.persona_id)
        check_key("persona_id", thread.persona_id)
        check_messages(messages)
        now = to_micros(self._clock())
        return await self._connections.write(
            lambda connection: _append(
                connection, self._write_cache(connection), scope, thread, messages, tail, slide, now
            )
        )

    async def latest(
        self,
        scope: Scope,
        thread: ThreadKey,
        limit: int,
        *,
        before: int | None = None,
        whole_turns: bool = False,
    ) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.latest`."""
        check_range("limit", limit, 1, READ_LIMIT)
        check_read(scope, thread, before=before)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> list[Message]:
            target = _find(connection, scope, thread, now)
            if target is None or target.thread is None:
                return []
            return _latest(connection, target.thread, limit, before, whole_turns)

        return await self._connections.read(work)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        return (await self.read_parts(scope, [ThreadPart(thread, start, limit)]))[0]

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """See :meth:`wenmai.stores.contracts.Logs.read_parts`."""
        check_parts(scope, parts)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> list[list[Message]]:
            return [_from(connection, _find(connection, scope, part.thread, now), part) for part in parts]

        return await self._connections.read(work)

    async def complete(
        self,
        scope: Scope,
        thread: ThreadKey,
        message: Message,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """See :meth:`wenmai.stores.contracts.Logs.complete`."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_completion(content, tokens, metadata)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> Message | None:
            target = _find(connection, scope, thread, now)
            if target is None or target.thread is None:
                return None
            where = target.thread.row, message.seq
            given_id = None if message.id == generated_id(target.thread.label, message.seq) else message.id
            connection.execute(
                "UPDATE messages SET content = ?, completed = ?, tokens = ?, metadata = coalesce(?, metadata) "
                "WHERE thread = ? AND seq = ? AND given_id IS ? AND completed = 0",
                (content, int(completed), tokens, to_json(metadata), *where, given_id),
            )
            if not connection.changes():
                return None
            self._write_cache(connection).invalidate(scope, thread.session_id)
            return to_message(target.thread, fetch(connection, _BY_SEQ, where)[0])

        return await self._connections.write(work)

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""
        check_owner(scope, session_id)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> list[ThreadInfo]:
            target = _find(connection, scope, ThreadKey(session_id, "", incarnation), now)
            if target is None:
                return []
            rows = fetch(
                connection,
                "SELECT thread, npc_id FROM threads WHERE incarnation = ? ORDER BY thread",
                (target.incarnation,),
            )
            return [info for row, persona_id in rows if (info := _thread_info(connection, row, persona_id)) is not None]

        return await self._connections.read(work)

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = MAX_EXAMINED
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        check_range("limit", limit, 1, MAX_EXAMINED)
        where = (cursor_number(cursor), limit, to_micros(self._clock()), None if since is None else to_micros(since))
        rows = await self._connections.read(lambda connection: fetch(connection, _ACTIVE, where))
        items = [
            ActiveThread(Scope(*owner), ThreadKey(session_id, persona_id, incarnation), seq, from_micros(active_at))
            for _, *owner, session_id, incarnation, active_at, persona_id, seq in rows
            if seq is not None
        ]
        more = len({row[0] for row in rows}) == limit
        return ActiveThreads(items, str(rows[-1][0]) if more else None)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        now = to_micros(self._clock())
        key = ThreadKey(session_id, persona_id or "", incarnation)
        check_owner(scope, session_id, persona_id or "")

        def work(connection: apsw.Connection) -> int:
            target = _find(connection, scope, key, now)
            if target is None:
                return 0
            self._write_cache(connection).invalidate(scope, session_id)
            where = target.incarnation, persona_id is None, key.persona_id
            rows = fetch(connection, "SELECT thread FROM threads WHERE incarnation = ? AND (? OR npc_id = ?)", where)
            detach(connection, rows)
            return sum(last[0][0] for row in rows if (last := fetch(connection, _LAST, row)))

        erased = await self._connections.write(work)
        if erased:
            await self._connections.write_in_batches(purge)
        return erased

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_range("last_seq", last_seq, 0, _END)
        now = to_micros(self._clock())

        def work(connection: apsw.Connection) -> int:
            target = _find(connection, scope, thread, now)
            if target is None or target.thread is None:
                return 0
            where = target.thread.row, last_seq
            connection.execute("DELETE FROM messages WHERE thread = ? AND seq > ?", where)
            removed = connection.changes()
            if removed:
                self._write_cache(connection).invalidate(scope, thread.session_id)
                _relabel(connection, target.thread)
            return removed

        return await self._connections.write(work)


def _collides_with_future_id(connection: apsw.Connection, thread: ThreadRow, given: str) -> bool:
    """Whether the thread's label would later generate this given id for another message."""
    return given.startswith(generated_id(thread.label, "")) and not _by_id(connection, thread, given)


def _relabel(connection: apsw.Connection, thread: ThreadRow) -> ThreadRow:
    """Store the generated ids explicitly, and give the thread a new label for future ones."""
    connection.execute(
        "UPDATE messages SET given_id = ? || seq WHERE thread = ? AND given_id IS NULL",
        (generated_id(thread.label, ""), thread.row),
    )
    label = secrets.token_hex(4)
    connection.execute("UPDATE threads SET label = ? WHERE thread = ?", (label, thread.row))
    return thread._replace(label=label)


def _find(connection: apsw.Connection, scope: Scope, thread: ThreadKey, now: int) -> _Target | None:
    rows = fetch(
        connection,
        _FIND,
        (thread.persona_id, scope.tenant_id, scope.site_id, thread.session_id, scope.user_id, now),
    )
    if not rows:
        return None
    row, label, session, incarnation, expires_at, keep_until, lifetime = rows[0]
    if thread.incarnation not in (None, incarnation):
        return None
    found = None if row is None else ThreadRow(row, label, thread.persona_id)
    return _Target(found, session, incarnation, expires_at, keep_until, lifetime * 1_000_000)


def _from(connection: apsw.Connection, target: _Target | None, part: ThreadPart) -> list[Message]:
    if target is None or target.thread is None:
        return []
    rows = fetch(connection, _FROM, (target.thread.row, part.start, part.limit))
    return [to_message(target.thread, row) for row in rows]


def _append(
    connection: apsw.Connection,
    cache: WriteCache,
    scope: Scope,
    key: ThreadKey,
    messages: Sequence[NewMessage],
    tail: int,
    slide: bool,  # noqa: FBT001 — private; the public method takes it by keyword
    now: int,
) -> Appended:
    session = _cached_session(connection, cache, scope, key, now)
    if slide:
        if session.expires_at <= now:
            raise SessionExpired(key.session_id)
        _slide(connection, session, now)
    thread = session.threads.get(key.persona_id)
    if thread is None:
        thread = session.add(CachedThread(_create_thread(connection, session.incarnation, key.persona_id), 0, 0))
    given = [message.id for message in messages if message.id is not None]
    if any(_collides_with_future_id(connection, thread.row, id_) for id_ in given):
        thread.row = _relabel(connection, thread.row)
    stored, inserted = _insert(connection, thread, messages, now)
    latest = _tail(connection, thread, tail) if tail else []
    cache.put(scope, key.session_id, session)
    return Appended(stored, len(messages) - inserted, latest, session.incarnation)


def _cached_session(
    connection: apsw.Connection, cache: WriteCache, scope: Scope, key: ThreadKey, now: int
) -> CachedSession:
    """The session with this thread, if it has messages, from the cache or else from the file."""
    session = cache.get(scope, key.session_id)
    expired = session is not None and session.keep_until is not None and session.keep_until <= now
    if session is not None and key.persona_id in session.threads and not expired:
        if key.incarnation not in (None, session.incarnation):
            raise SessionNotFound(key.session_id)
        return session
    target = _find(connection, scope, key, now)
    if target is None:
        raise SessionNotFound(key.session_id)
    if session is None:
        session = CachedSession(
            target.row, target.incarnation, target.expires_at, target.keep_until, target.lifetime_micros
        )
    if target.thread is not None:
        last = fetch(connection, _LAST, (target.thread.row,))
        session.add(CachedThread(target.thread, *(last[0] if last else (0, 0))))
    return session


def _tail(connection: apsw.Connection, thread: CachedThread, limit: int) -> list[Message]:
    cached = thread.tail(limit)
    if cached is not None:
        return cached
    read = _latest(connection, thread.row, limit, None, whole_turns=True)
    thread.set_tail(read, limit)
    return read


def _slide(connection: apsw.Connection, session: CachedSession, now: int) -> None:
    end = now + session.lifetime
    if end - session.expires_at >= min(_SLIDE_STEP_MICROS, session.lifetime // 100):
        connection.execute(_SLIDE, (end, now, session.row))
        session.expires_at = end


def _create_thread(connection: apsw.Connection, incarnation: str, persona_id: str) -> ThreadRow:
    label = secrets.token_hex(4)
    connection.execute(
        "INSERT INTO threads (incarnation, npc_id, label) VALUES (?, ?, ?)", (incarnation, persona_id, label)
    )
    return ThreadRow(connection.last_insert_rowid(), label, persona_id)


def _insert(
    connection: apsw.Connection, thread: CachedThread, messages: Sequence[NewMessage], now: int
) -> tuple[list[Message], int]:
    seq, turn = thread.seq, thread.turn
    rows: list[tuple[Any, ...]] = []
    stored: list[Message] = []
    added: list[Message] = []
    given: dict[str, Message] = {}
    for message in messages:
        if message.id is not None:
            known = given.get(message.id) or _by_id(connection, thread.row, message.id)
            if known is not None:
                stored.append(known)
                continue
        seq += 1
        if message.role == "user" or turn == 0:
            turn += 1
        row = to_row(message, seq, turn, now)
        rows.append((thread.row.row, *row))
        added.append(to_message(thread.row, row))
        stored.append(added[-1])
        if message.id is not None:
            given[message.id] = added[-1]
    if rows:
        connection.executemany(_INSERT, rows)
        thread.extend(added)
    return stored, len(added)


def _by_id(connection: apsw.Connection, thread: ThreadRow, message_id: str) -> Message | None:
    rows = fetch(connection, _BY_GIVEN_ID, (thread.row, message_id))
    prefix = generated_id(thread.label, "")
    if not rows and message_id.startswith(prefix) and message_id[len(prefix) :].isdecimal():
        rows = fetch(connection, _BY_SEQ, (thread.row, int(message_id[len(prefix) :])))
    message = to_message(thread, rows[0]) if rows else None
    return message if message is not None and message.id == message_id else None


def _latest(
    connection: apsw.Connection,
    thread: ThreadRow,
    limit: int,
    before: int | None,
    whole_turns: bool,  # noqa: FBT001 — private; the public method takes it by keyword
) -> list[Message]:
    sql = _LATEST_WHOLE if whole_turns else _LATEST
    rows = fetch(connection, sql, (thread.row, _END if before is None else before, limit))
    rows.reverse()
    return [to_message(thread, row) for row in rows]


def _thread_info(connection: apsw.Connection, row: int, persona_id: str) -> ThreadInfo | None:
    ends = fetch(
        connection,
        "SELECT seq, turn_id, timestamp FROM messages WHERE thread = ?1 AND seq IN (1, "
        "(SELECT max(seq) FROM messages WHERE thread = ?1)) ORDER BY seq",
        (row,),
    )
    if not ends:
        return None
    count, turns, last_at = ends[-1]
    return ThreadInfo(persona_id, count, turns, from_micros(ends[0][2]), from_micros(last_at))
