"""Appends as they usually are: one statement each, and those that come while others run share transactions.

A round trip and a commit then serve several, as in the SQLite store. No statement here waits for a lock: what one
transaction holds blocks nobody for long, and no two can wait for each other.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from wenmai.errors import StoreUnavailable, WenmaiError
from wenmai.stores.postgresql.database import Database, Row

LANES = 3
"""Transactions at once; more make the batches smaller, and each append dearer."""

BATCH = 32
"""Appends in one transaction at most."""

# What append_messages does, in two thirds of its time. It sees the thread as it was before it had the lock, so it
# counts on what is usual: nobody holds the session or the thread or has appended meanwhile, and all messages are
# completed. Where that is not so it gives no row, or would give a number twice: then the function does it.
# A thread that was cut meanwhile is another row, so this one is gone.
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
"""Of one append: place in its batch, incarnation, label of the thread, and the fields of a message that was there."""


class _Waiting(NamedTuple):
    arguments: Sequence[Any]
    done: "asyncio.Future[Rows]"


class SharedAppends:
    """Runs the appends of a store, several in one transaction where they come together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lanes = LANES
        self._waiting: deque[_Waiting] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    async def append(self, *arguments: Any) -> Rows:
        """Run the statement durably; the messages that were there before, ascending, or none if it did nothing.

        Args:
            arguments: scope, session, persona, incarnation or None, moment, whether the session slides, how many
                earlier messages to give (one at least), and the batch as arrays: roles, contents, timestamps, names,
                tool calls, ids of tool calls, tokens, completed, metadata, and by how much the turn's number grows up
                to each.
        """
        if self._lanes and not self._waiting:
            self._lanes -= 1
            try:
                return await self._database.attempt(_APPEND, *arguments, 0)
            finally:
                self._leave_lane()
        waiting = _Waiting(arguments, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        return await waiting.done

    def _leave_lane(self) -> None:
        """Give the lane to those who wait."""
        batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), BATCH))]
        if batch:
            task = asyncio.create_task(self._run(batch))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            self._lanes += 1

    async def _run(self, batch: Sequence[_Waiting]) -> None:
        try:
            arguments = [(*each.arguments, place) for place, each in enumerate(batch)]
            rows = await self._database.attempt_together(_APPEND, arguments)
            if rows is None:
                for each in batch:
                    await self._run_alone(each)
            else:
                _deliver(batch, rows)
        except WenmaiError as problem:
            _fail(batch, problem)
        finally:
            _fail(batch, StoreUnavailable("postgresql", "the append was given up"))
            self._leave_lane()

    async def _run_alone(self, waiting: _Waiting) -> None:
        try:
            _deliver([waiting], await self._database.attempt(_APPEND, *waiting.arguments, 0))
        except WenmaiError as problem:
            _fail([waiting], problem)


def _deliver(batch: Sequence[_Waiting], rows: Rows) -> None:
    shares: list[list[Row]] = [[] for _ in batch]
    for row in rows:
        shares[row[0]].append(row)
    for waiting, share in zip(batch, shares, strict=True):
        if not waiting.done.done():
            waiting.done.set_result(share)


def _fail(batch: Sequence[_Waiting], problem: WenmaiError) -> None:
    for waiting in batch:
        if not waiting.done.done():
            waiting.done.set_exception(problem)
