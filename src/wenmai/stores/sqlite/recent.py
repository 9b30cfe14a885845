"""What the writer remembers of the sessions that it wrote to last: where threads end, and their newest whole turns.

A turn in a thread that it knows takes one INSERT and no SELECT. Nothing is believed for longer than it is true:
another process's commit makes it forget everything (SQLite's data version tells), so does a rollback, and a change
of a session's row by any statement of its own connection makes it forget that session (the update hook tells).
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import apsw

from wenmai.scope import Scope
from wenmai.stores.records import Message
from wenmai.stores.sqlite.lanes import fetch

SESSIONS = 1_000
TAIL = 64
"""Messages of a thread; longer tails are read from the file."""

TAIL_CHARACTERS = 16_000
"""Four windows of ordinary length; tails of more text are read from the file, so that memory stays bounded."""


class ThreadRow(NamedTuple):
    """A thread's row and the label that begins its own message ids."""

    row: int
    label: str
    npc_id: str


class RecentThread:
    """A thread as the writer left it.

    Attributes:
        seq, turn: of its last message, 0 if it has none.
    """

    def __init__(self, row: ThreadRow, seq: int, turn: int) -> None:
        self.row = row
        self.seq = seq
        self.turn = turn
        self._tail: list[Message] | None = [] if seq == 0 else None
        self._from_start = seq == 0
        self._characters = 0

    def grow(self, messages: Sequence[Message]) -> None:
        """Note what was appended; a turn that is not completed makes the tail unknown until it is read again."""
        if not messages:
            return
        self.seq, self.turn = messages[-1].seq, messages[-1].turn_id
        if self._tail is not None and all(message.completed for message in messages):
            self._tail += messages
            self._characters += _characters(messages)
            if self._characters > TAIL_CHARACTERS or len(self._tail) > 2 * TAIL:
                self._shorten()
        else:
            self._tail = None

    def _shorten(self) -> None:
        """Keep the newest half of what may be kept."""
        assert self._tail is not None  # noqa: S101 — only a known tail is too long
        kept: list[Message] = []
        characters = 0
        for message in reversed(self._tail[-TAIL:]):
            characters += len(message.content)
            if characters > TAIL_CHARACTERS // 2:
                break
            kept.append(message)
        self._tail = kept[::-1]
        self._characters = _characters(kept)
        self._from_start = False

    def tail(self, limit: int) -> list[Message] | None:
        """The newest ``limit`` messages of completed turns, ascending, or None if they are not known."""
        if self._tail is None or (len(self._tail) < limit and not self._from_start):
            return None
        return self._tail[-limit:]

    def learn(self, tail: Sequence[Message], limit: int) -> None:
        """Keep a tail as it was read, if the thread's last turn is in it, and so is completed."""
        characters = _characters(tail)
        if limit <= TAIL and tail and tail[-1].seq == self.seq and characters <= TAIL_CHARACTERS:
            self._tail, self._from_start = list(tail), len(tail) < limit
            self._characters = characters


def _characters(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


class RecentSession:
    """A session's row as the writer left it; moments and the lifetime are in microseconds.

    Attributes:
        threads: those that were written to, by persona.
    """

    def __init__(self, row: int, expires_at: int, keep_until: int | None, lifetime: int) -> None:
        self.row = row
        self.expires_at = expires_at
        self.keep_until = keep_until
        self.lifetime = lifetime
        self.threads: dict[str, RecentThread] = {}


class Recent:
    """The sessions that were written to last through one connection, this process's only writing one."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._version = -1
        self._sessions: OrderedDict[tuple[Scope, str], RecentSession] = OrderedDict()
        self._keys: dict[int, tuple[Scope, str]] = {}
        connection.set_update_hook(self._changed)
        connection.set_rollback_hook(self._forget_all)

    def get(self, scope: Scope, session_id: str) -> RecentSession | None:
        """The session, if it is still as the writer left it. Ask within a write transaction."""
        version = fetch(self._connection, "PRAGMA data_version")[0][0]
        if version != self._version:
            self._forget_all()
            self._version = version
        return self._sessions.get((scope, session_id))

    def put(self, scope: Scope, session_id: str, session: RecentSession) -> None:
        """Remember the session as the newest one."""
        key = scope, session_id
        self._sessions[key] = session
        self._keys[session.row] = key
        self._sessions.move_to_end(key)
        if len(self._sessions) > SESSIONS:
            _, oldest = self._sessions.popitem(last=False)
            del self._keys[oldest.row]

    def forget(self, scope: Scope, session_id: str) -> None:
        """Something of the session was changed that :meth:`put` was not told."""
        session = self._sessions.pop((scope, session_id), None)
        if session is not None:
            del self._keys[session.row]

    def _forget_all(self) -> None:
        self._sessions.clear()
        self._keys.clear()

    def _changed(self, _operation: int, _database: str, table: str, row: int) -> None:
        if table == "conversations" and row in self._keys:
            self.forget(*self._keys[row])
