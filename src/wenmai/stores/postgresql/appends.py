"""Fast path and group commit of appends: one statement each, and concurrent appends share transactions.

One round trip and one commit then serve several appends, as in the SQLite store. No statement here waits for a lock, so
transactions block others only briefly and cannot deadlock.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from wenmai.errors import StoreUnavailable, WenmaiError
from wenmai.stores.postgresql.database import Database, Row

MAX_TRANSACTIONS = 3
"""Concurrent transactions; more of them make the batches smaller, and each append more expensive."""

MAX_BATCH = 32
"""Most appends in one transaction."""

# Does what append_messages does, in two thirds of its time. Its snapshot is older than its lock, so it assumes the
# common case: the session and the thread are not locked, no append came in between, and all messages are completed.
# Otherwise it returns no row or violates the unique index, and append_messages is called instead. Truncating replaces
# the thread's row, so the row of this snapshot no longer exists then.
_APPEND = """
WITH a AS MATERIALIZED (
  SELECT t.thread, t.label, t.incarnation FROM threads t
  WHERE t.conversation = (
    SELECT s.row_id FROM (
      SELECT c.row_id, c.expires_at, c.lifetime_seconds * interval '1 second' AS lifetime FROM conversations c
      WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = $4
        AND ($6::text IS NULL OR c.incarnation = $6)
        AND (c.keep_until IS NULL OR c.keep_until > $7) AND (c.expires_at > $7 OR NOT $8) OFFSET 0
    ) s
    WHERE CASE WHEN $8 AND $7 + s.lifetime - s.expires_at >= least(interval '1 second', s.lifetime / 100)
      THEN slide_session(s.row_id, s.expires_at, s.lifetime, $7) ELSE TRUE END
  ) AND t.npc_id = $5 AND NOT EXISTS (SELECT FROM messages u WHERE u.thread = t.thread AND NOT u.completed)
  FOR UPDATE OF t SKIP LOCKED
), m AS MATERIALIZED (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) ORDER BY seq DESC LIMIT $9
), fresh AS (
  INSERT INTO messages (thread, seq, turn_id, role, content, timestamp, name, tool_calls, tool_call_id, tokens,
    completed, metadata)
  SELECT last.thread, last.seq + u.place, last.turn_id + u.turn, u.role, u.content, coalesce(u.timestamp, $7), u.name,
    u.tool_calls::json, u.tool_call_id, coalesce(u.tokens, 0), coalesce(u.completed, TRUE), u.metadata::json
  FROM (SELECT m.thread, m.seq, m.turn_id FROM m ORDER BY m.seq DESC LIMIT 1) last, unnest(
    $10::text[], $11::text[], $12::timestamptz[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::boolean[],
    $18::text[], $19::bigint[]
  ) WITH ORDINALITY
    AS u (role, content, timestamp, name, tool_calls, tool_call_id, tokens, completed, metadata, turn, place)
)
SELECT $20::bigint, a.incarnation, a.label, coalesce(m.given_id, 'msg-' || a.label || '-' || m.seq), m.seq,
  m.turn_id, m.role, m.content, m.timestamp, m.name, m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata
FROM m, a ORDER BY m.seq"""

Rows = Sequence[Row]
"""Of one append: index in its batch, incarnation, label of the thread, and the fields of an earlier message."""


class _QueuedAppend(NamedTuple):
    """An append that waits for a shared transaction."""

    arguments: Sequence[Any]
    done: "asyncio.Future[Rows]"


class GroupCommit:
    """Runs the appends of a store; concurrent ones share transactions."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._free_transactions = MAX_TRANSACTIONS
        self._queue: deque[_QueuedAppend] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, *arguments: Any) -> Rows:
        """Run the statement durably; return the earlier messages, ascending, or no rows if it did nothing.

        Args:
            arguments: scope, session, persona, incarnation or None, now, whether the session slides, how many
                earlier messages to return (at least one), and the batch as arrays: roles, contents, timestamps, names,
                tool calls, ids of tool calls, tokens, completed, metadata, and the turn number of each relative to the
                last turn.
        """
        if self._free_transactions and not self._queue:
            self._free_transactions -= 1
            try:
                return await self._database.fetch_unless_conflict(_APPEND, *arguments, 0)
            finally:
                self._release_transaction()
        queued = _QueuedAppend(arguments, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        return await queued.done

    def _release_transaction(self) -> None:
        """Start a transaction for the queued appends, or free the slot."""
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), MAX_BATCH))]
        if batch:
            task = asyncio.create_task(self._run(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._free_transactions += 1

    async def _run(self, batch: Sequence[_QueuedAppend]) -> None:
        try:
            arguments = [(*queued.arguments, index) for index, queued in enumerate(batch)]
            rows = await self._database.fetch_batch_unless_conflict(_APPEND, arguments)
            if rows is None:
                for queued in batch:
                    await self._run_single(queued)
            else:
                _deliver(batch, rows)
        except WenmaiError as problem:
            _fail(batch, problem)
        finally:
            _fail(batch, StoreUnavailable("postgresql", "the append was cancelled"))
            self._release_transaction()

    async def _run_single(self, queued: _QueuedAppend) -> None:
        try:
            _deliver([queued], await self._database.fetch_unless_conflict(_APPEND, *queued.arguments, 0))
        except WenmaiError as problem:
            _fail([queued], problem)


def _deliver(batch: Sequence[_QueuedAppend], rows: Rows) -> None:
    shares: list[list[Row]] = [[] for _ in batch]
    for row in rows:
        shares[row[0]].append(row)
    for queued, share in zip(batch, shares, strict=True):
        if not queued.done.done():
            queued.done.set_result(share)


def _fail(batch: Sequence[_QueuedAppend], problem: WenmaiError) -> None:
    for queued in batch:
        if not queued.done.done():
            queued.done.set_exception(problem)
