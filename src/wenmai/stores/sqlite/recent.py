"""What the writer remembers of the sessions that it wrote to last: where threads end, and their newest whole turns.

A turn in a thread that it knows takes one INSERT and no SELECT. Nothing is kept for longer than it is true:
another process's commit makes it forget everything, so does a rollback, and a change
of a session's row by any statement of its own connection makes it forget that session (the update hook tells).
Its memory is bounded by the bytes of whole messages, per thread and in all.
"""

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import NamedTuple

import apsw
import msgspec

from wenmai.scope import Scope
from wenmai.stores.records import Message

SESSIONS = 1_000
PERSONAS = 64
"""Threads of a session; of more, the one that was remembered first is forgotten."""

TAIL = 64
"""Messages of a thread; longer tails are read from the file."""

TAIL_BYTES = 28 << 10
"""Two windows of ordinary length; tails of more are read from the file."""

BYTES = 32 << 20
"""Of all sessions together, so many as the tails of :data:`SESSIONS` may take; beyond, the ones that were written to
longest ago are forgotten."""

_MESSAGE, _THREAD, _SESSION = 460, 1_000, 1_500
"""Bytes of each without its texts, about; of a message as ``tracemalloc`` measured it."""

_JSON = 4
"""Decoded JSON takes several times the bytes of its text."""

_encode = msgspec.json.Encoder().encode


class ThreadRow(NamedTuple):
    """A thread's row and the label that begins its own message ids."""

    row: int
    label: str
    npc_id: str


class RecentThread:
    """A thread as the writer left it.

    Attributes:
        seq, turn: of its last message, 0 if it has none.
        size: the bytes that it takes in memory, about.
    """

    def __init__(self, row: ThreadRow, seq: int, turn: int) -> None:
        self.row = row
        self.seq = seq
        self.turn = turn
        self._tail: list[Message] | None = [] if seq == 0 else None
        self._sizes: list[int] = []
        self._from_start = seq == 0
        self.size = _THREAD

    def grow(self, messages: Sequence[Message]) -> None:
        """Note what was appended; a turn that is not completed makes the tail unknown until it is read again."""
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
        if self.size > TAIL_BYTES or len(self._tail) > 2 * TAIL:
            self._shorten()

    def _shorten(self) -> None:
        """Keep the newest three quarters of what may be kept, so that it is done once in a few turns."""
        assert self._tail is not None  # noqa: S101 — only a known tail is too long
        kept, size = 0, _THREAD
        for more in reversed(self._sizes[-TAIL:]):
            if size + more > 3 * TAIL_BYTES // 4:
                break
            kept += 1
            size += more
        first = len(self._tail) - kept
        self._tail, self._sizes, self.size = self._tail[first:], self._sizes[first:], size
        self._from_start = False

    def tail(self, limit: int) -> list[Message] | None:
        """The newest ``limit`` messages of completed turns, ascending, or None if they are not known."""
        if self._tail is None or (len(self._tail) < limit and not self._from_start):
            return None
        return self._tail[-limit:]

    def learn(self, tail: Sequence[Message], limit: int) -> None:
        """Keep a tail as it was read, if the thread's last turn is in it, and so is completed."""
        if limit > TAIL or not tail or tail[-1].seq != self.seq:
            return
        sizes = [_size(message) for message in tail]
        size = _THREAD + sum(sizes)
        if size <= TAIL_BYTES:
            self._tail, self._sizes, self.size = list(tail), sizes, size
            self._from_start = len(tail) < limit


def _size(message: Message) -> int:
    """The bytes that it takes in memory, about."""
    size = _MESSAGE + sys.getsizeof(message.content)
    if message.tool_calls or message.metadata:
        size += _JSON * len(_encode((message.tool_calls, message.metadata)))
    return size


class RecentSession:
    """A session's row as the writer left it; moments and the lifetime are in microseconds.

    Attributes:
        threads: those that were written to, by persona.
        counted: the bytes that the total of :class:`Recent` counts for it.
    """

    def __init__(self, row: int, incarnation: str, expires_at: int, keep_until: int | None, lifetime: int) -> None:
        self.row = row
        self.incarnation = incarnation
        self.expires_at = expires_at
        self.keep_until = keep_until
        self.lifetime = lifetime
        self.threads: dict[str, RecentThread] = {}
        self.counted = 0

    def keep(self, thread: RecentThread) -> RecentThread:
        """Remember one more thread."""
        if len(self.threads) >= PERSONAS:
            del self.threads[next(iter(self.threads))]
        self.threads[thread.row.npc_id] = thread
        return thread


class Recent:
    """The sessions that were written to last through one connection, this process's only writing one.

    SQLite's ``SQLITE_FCNTL_DATA_VERSION`` rises by one with each commit of the connection, and when another one's is
    seen; so the commits of others are what it counts beyond ours. ``PRAGMA data_version`` counts them alone, but takes
    ten times as long.

    Args:
        connection: the writing one.
        commits: how many commits it has made.

    Attributes:
        size: the bytes that all of them take in memory, about.
    """

    def __init__(self, connection: apsw.Connection, commits: Callable[[], int]) -> None:
        self._connection = connection
        self._commits = commits
        self._version = -1
        self._sessions: OrderedDict[tuple[Scope, str], RecentSession] = OrderedDict()
        self._keys: dict[int, tuple[Scope, str]] = {}
        self.size = 0
        connection.set_update_hook(self._changed)
        connection.set_rollback_hook(self._forget_all)

    def get(self, scope: Scope, session_id: str) -> RecentSession | None:
        """The session, if it is still as the writer left it. Ask within a write transaction."""
        version = self._connection.data_version() - self._commits()
        if version != self._version:
            self._forget_all()
            self._version = version
        return self._sessions.get((scope, session_id))

    def put(self, scope: Scope, session_id: str, session: RecentSession) -> None:
        """Remember the session as the newest one."""
        key = scope, session_id
        if self._sessions.get(key) is session:
            self._sessions.move_to_end(key)
            self.size -= session.counted
        else:
            self.forget(scope, session_id)
            self._sessions[key] = session
            self._keys[session.row] = key
        session.counted = _SESSION + sum([thread.size for thread in session.threads.values()])
        self.size += session.counted
        while len(self._sessions) > SESSIONS or self.size > BYTES:
            self.forget(*next(iter(self._sessions)))

    def forget(self, scope: Scope, session_id: str) -> None:
        """Something of the session was changed that :meth:`put` was not told."""
        session = self._sessions.pop((scope, session_id), None)
        if session is not None:
            del self._keys[session.row]
            self.size -= session.counted

    def _forget_all(self) -> None:
        self._sessions.clear()
        self._keys.clear()
        self.size = 0

    def _changed(self, _operation: int, _database: str, table: str, row: int) -> None:
        if table == "conversations" and row in self._keys:
            self.forget(*self._keys[row])
