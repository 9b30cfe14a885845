"""The logs contract on PostgreSQL: an append is one call of a function of the database, a read one statement."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import asyncpg
import msgspec

from wenmai.clock import Clock
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, ThreadInfo
from wenmai.stores.fields import check_key, check_range
from wenmai.stores.postgresql.database import Database, Row, unescape
from wenmai.stores.records import Message, NewMessage

APPEND_LIMIT = 1_000
READ_LIMIT = 10_000
NO_SESSION, SESSION_EXPIRED = "WM404", "WM410"
"""Error codes of ``append_messages`` (see the tables' definition)."""

_END = (1 << 63) - 1

_COLUMNS = (
    "coalesce(m.given_id, 'msg-' || a.label || '-' || m.seq), m.seq, m.turn_id, m.role, m.content, m.timestamp, m.name, "
    "m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata"
)
_SESSION = (
    "c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = $4 "
    "AND (c.keep_until IS NULL OR c.keep_until > $5)"
)
_ANCHOR = f"""
WITH a AS MATERIALIZED (
  SELECT t.thread, t.label FROM conversations c JOIN threads t ON t.conversation = c.row_id
  WHERE {_SESSION} AND t.npc_id = $6
)"""
_APPEND = f"SELECT * FROM append_messages({', '.join(f'${number}' for number in range(1, 19))})"
# The thread is a subquery, not a join, so that the index gives the newest first and the limit ends it.
_LATEST = f"""{_ANCHOR}
SELECT {_COLUMNS} FROM (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) AND seq < $7 ORDER BY seq DESC LIMIT $8
) m, a ORDER BY m.seq"""
_LATEST_WHOLE = f"""{_ANCHOR}
SELECT {_COLUMNS} FROM (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) AND seq < $7 AND turn_id NOT IN
    (SELECT turn_id FROM messages WHERE thread = (SELECT thread FROM a) AND NOT completed)
  ORDER BY seq DESC LIMIT $8
) m, a ORDER BY m.seq"""
_FROM = f"""{_ANCHOR}
SELECT {_COLUMNS} FROM (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) AND seq >= $7 ORDER BY seq LIMIT $8
) m, a ORDER BY m.seq"""
_SETTLE = f"""{_ANCHOR}
UPDATE messages m SET content = $8, completed = $9, tokens = $10, metadata = coalesce($11::json, m.metadata)
FROM a WHERE m.thread = a.thread AND m.seq = $7 AND NOT m.completed
RETURNING {_COLUMNS}"""
_THREADS = f"""
SELECT t.npc_id, latest.seq, latest.turn_id, earliest.timestamp, latest.timestamp
FROM conversations c JOIN threads t ON t.conversation = c.row_id
JOIN messages earliest ON earliest.thread = t.thread AND earliest.seq = 1
JOIN LATERAL (
  SELECT * FROM messages m WHERE m.thread = t.thread ORDER BY m.seq DESC LIMIT 1
) latest ON TRUE
WHERE {_SESSION} ORDER BY t.thread"""
# The session first, as whoever deletes it does, then the threads in one order: nobody waits in a circle.
_HOLD_SESSION = """
SELECT c.row_id FROM conversations c
WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = $4 FOR KEY SHARE"""
_HOLD_THREADS = """
SELECT t.thread FROM threads t WHERE t.conversation = $1 AND ($2::text IS NULL OR t.npc_id = $2)
ORDER BY t.thread FOR UPDATE"""
_ERASE = "WITH gone AS (DELETE FROM messages WHERE thread = ANY($1::bigint[]) RETURNING 1) SELECT count(*) FROM gone"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


class PostgresqlLogs:
    """See :class:`wenmai.stores.base.Logs`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def append(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        *,
        tail: int = 0,
        slide: bool = True,
    ) -> Appended:
        """See :meth:`wenmai.stores.base.Logs.append`."""
        check_range("messages", len(messages), 1, APPEND_LIMIT)
        check_range("tail", tail, 0, READ_LIMIT)
        check_key("npc_id", thread.npc_id)
        for message in messages:
            if message.id is not None:
                check_key("id", message.id)
        now = self._clock()
        batch = _Batch(messages, now)
        try:
            rows = await self._database.fetch(
                _APPEND, *scope, *thread, now, slide, tail, *batch.columns, refusals=_refusals(thread)
            )
        except asyncpg.ForeignKeyViolationError:
            raise SessionNotFound(thread.session_id) from None
        return batch.appended(thread.npc_id, rows)
