"""The writer's cache of recent sessions: the last number of each thread, and its newest completed turns.

An append to a cached thread takes one INSERT and no SELECT. A commit of another process and a rollback invalidate the
whole cache; a change of a session's row by the writer's own connection invalidates that session (by the update hook).
Its size is bounded by the bytes of whole messages, per thread and in total.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import apsw
import msgspec

from wenmai.scope import Scope
from wenmai.stores.records import Message

MAX_SESSIONS = 1_000
MAX_THREADS = 64
"""Cached threads of a session; beyond that, the oldest entry is evicted."""

MAX_TAIL = 64
"""Cached messages of a thread; longer tails are read from the file."""

MAX_TAIL_BYTES = 28 << 10
"""Two windows of ordinary length; larger tails are read from the file."""

MAX_BYTES = 32 << 20
"""Of all sessions together, as much as the tails of :data:`MAX_SESSIONS` may take; beyond that, the least recently
written sessions are evicted."""

_MESSAGE, _THREAD, _SESSION = 460, 1_000, 1_500
"""Approximate bytes of each without its texts; of a message as measured with ``tracemalloc``."""

_JSON = 4
"""Decoded JSON takes several times the bytes of its text."""

_encode = msgspec.json.Encoder().encode


class ThreadRow(NamedTuple):
    """A thread's row id, and the label in the message ids that the store generates for it."""

    row: int
    label: str
    persona_id: str


class CachedThread:
    """Cache entry of a thread.

    Attributes:
        seq, turn: of its last message, 0 if it has none.
        size: approximate bytes in memory.
    """

    def __init__(self, row: ThreadRow, seq: int, turn: int) -> None:
        self.row = row
        self.seq: int = seq
        self.turn: int = turn
        self._tail: list[Message] | None = [] if seq == 0 else None
        self._sizes: list[int] = []
        self._is_whole_thread = seq == 0
        self.size: int = _THREAD

    def extend(self, messages: Sequence[Message]) -> None:
        """Add appended messages; an uncompleted one discards the tail until it is read again."""
        if not messages:
            return
        self.seq, self.turn = messages[-1].seq, messages[-1].turn_id
        if self._tail is None or not all(message.completed for message in messages):
            self._tail, self._sizes, self.size = None, [], _THREAD
            return
        sizes = [_size(message) for message in messages]
        self._tail += messages
        self._sizes += sizes
        self.size += sum(sizes)
        if self.size > MAX_TAIL_BYTES or len(self._tail) > 2 * MAX_TAIL:
            self._trim_tail()

    def _trim_tail(self) -> None:
        """Trim the tail to three quarters of the limit, so that trimming is needed only once in a few turns."""
        assert self._tail is not None  # noqa: S101 — only a cached tail is too long
        kept, size = 0, _THREAD
        for more in reversed(self._sizes[-MAX_TAIL:]):
            if size + more > 3 * MAX_TAIL_BYTES // 4:
                break
            kept += 1
            size += more
        first = len(self._tail) - kept
        self._tail, self._sizes, self.size = self._tail[first:], self._sizes[first:], size
        self._is_whole_thread = False

    def tail(self, limit: int) -> list[Message] | None:
        """The newest ``limit`` messages of completed turns, ascending, or None if they are not cached."""
        if self._tail is None or (len(self._tail) < limit and not self._is_whole_thread):
            return None
        return self._tail[-limit:]

    def set_tail(self, tail: Sequence[Message], limit: int) -> None:
        """Cache a tail that was read, if it includes the thread's last turn, which is then completed."""
        if limit > MAX_TAIL or not tail or tail[-1].seq != self.seq:
            return
        sizes = [_size(message) for message in tail]
        size = _THREAD + sum(sizes)
        if size <= MAX_TAIL_BYTES:
            self._tail, self._sizes, self.size = list(tail), sizes, size
            self._is_whole_thread = len(tail) < limit


def _size(message: Message) -> int:
    """Approximate bytes in memory."""
    size = _MESSAGE + sys.getsizeof(message.content)
    if message.tool_calls or message.metadata:
        size += _JSON * len(_encode((message.tool_calls, message.metadata)))
    return size


class CachedSession:
    """Cache entry of a session's row; times and the lifetime are in microseconds.

    Attributes:
        threads: the cached threads, by persona.
        counted_size: its share of :attr:`WriteCache.size`.
    """

    def __init__(self, row: int, incarnation: str, expires_at: int, keep_until: int | None, lifetime: int) -> None:
        self.row = row
        self.incarnation = incarnation
        self.expires_at = expires_at
        self.keep_until = keep_until
        self.lifetime = lifetime
        self.threads: dict[str, CachedThread] = {}
        self.counted_size = 0

    def add(self, thread: CachedThread) -> CachedThread:
        """Add a thread; evicts the oldest one if there are too many."""
        if len(self.threads) >= MAX_THREADS:
            del self.threads[next(iter(self.threads))]
        self.threads[thread.row.persona_id] = thread
        return thread


class WriteCache:
    """Cache of the sessions that were written last through this process's only writing connection.

    SQLite's ``SQLITE_FCNTL_DATA_VERSION`` rises by one with each commit of the connection, and when a commit of another
    connection is seen, so the commits of others are its value minus ours. ``PRAGMA data_version`` counts only those of
    others, but takes ten times as long.

    Args:
        connection: the writing one.
        commits: returns the number of its commits.

    Attributes:
        size: approximate bytes in memory of all entries.
    """

    def __init__(self, connection: apsw.Connection, commits: Callable[[], int]) -> None:
        self._connection = connection
        self._commits = commits
        self._version = -1
        self._sessions: OrderedDict[tuple[Scope, str], CachedSession] = OrderedDict()
        self._keys: dict[int, tuple[Scope, str]] = {}
        self.size: int = 0
        connection.set_update_hook(self._changed)
        connection.set_rollback_hook(self._invalidate_all)

    def get(self, scope: Scope, session_id: str) -> CachedSession | None:
        """The session, if cached and not stale. Call it within a write transaction."""
        version = self._connection.data_version() - self._commits()
        if version != self._version:
            self._invalidate_all()
            self._version = version
        return self._sessions.get((scope, session_id))

    def put(self, scope: Scope, session_id: str, session: CachedSession) -> None:
        """Add or update the session as the newest entry; evicts the oldest ones beyond the limits."""
        key = scope, session_id
        if self._sessions.get(key) is session:
            self._sessions.move_to_end(key)
            self.size -= session.counted_size
        else:
            self.invalidate(scope, session_id)
            self._sessions[key] = session
            self._keys[session.row] = key
        session.counted_size = _SESSION + sum([thread.size for thread in session.threads.values()])
        self.size += session.counted_size
        while len(self._sessions) > MAX_SESSIONS or self.size > MAX_BYTES:
            self.invalidate(*next(iter(self._sessions)))

    def invalidate(self, scope: Scope, session_id: str) -> None:
        """Remove a session that was changed without :meth:`put`."""
        session = self._sessions.pop((scope, session_id), None)
        if session is not None:
            del self._keys[session.row]
            self.size -= session.counted_size

    def _invalidate_all(self) -> None:
        self._sessions.clear()
        self._keys.clear()
        self.size = 0

    def _changed(self, _operation: int, _database: str, table: str, row: int) -> None:
        if table == "conversations" and row in self._keys:
            self.invalidate(*self._keys[row])
