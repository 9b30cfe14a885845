"""The logs contract on PostgreSQL: an append is one statement or one call of a function, a read one statement."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any

import msgspec

from wenmai.clock import Clock
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, ThreadInfo
from wenmai.stores.fields import check_key, check_range
from wenmai.stores.postgresql.appends import SharedAppends
from wenmai.stores.postgresql.database import Database, Row, unescape
from wenmai.stores.records import Message, NewMessage

APPEND_LIMIT = 1_000
READ_LIMIT = 10_000
_END = (1 << 63) - 1

_COLUMNS = (
    "coalesce(m.given_id, 'msg-' || a.label || '-' || m.seq), m.seq, m.turn_id, m.role, m.content, m.timestamp, "
    "m.name, m.tool_calls, m.tool_call_id, m.tokens, m.completed, m.metadata"
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
        self._appends = SharedAppends(database)
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
        columns = _batch_columns(messages)
        if _is_usual(messages, tail):
            usual = await self._append_as_usual(scope, thread, messages, columns, tail, now, slide=slide)
            if usual is not None:
                return usual
        ids = _unless_all(None, [message.id for message in messages])
        rows = await self._database.fetch(_APPEND, *scope, *thread, now, slide, tail, *columns, ids)
        if rows[0]["place"] is None:
            refused = SessionExpired if rows[0]["role"] == "expired" else SessionNotFound
            raise refused(thread.session_id)
        stored = [
            _new_message(thread.npc_id, message, unescape(row["id"]), row["seq"], row["turn_id"], now)
            if row["role"] is None
            else _message(thread.npc_id, row[1:])
            for message, row in zip(messages, rows, strict=False)
        ]
        repeated = sum(row["role"] is not None for row in rows[: len(messages)])
        return Appended(stored, repeated, [_message(thread.npc_id, row[1:]) for row in rows[: len(messages) - 1 : -1]])

    async def _append_as_usual(
        self,
        scope: Scope,
        thread: ThreadKey,
        messages: Sequence[NewMessage],
        columns: Sequence[list[Any] | None],
        tail: int,
        now: datetime,
        *,
        slide: bool,
    ) -> Appended | None:
        """Append by the one statement; None if the thread is not as it counts on."""
        turns = [*accumulate(int(message.role == "user") for message in messages)]
        older = max(tail - len(messages), 1)
        rows = await self._appends.append(*scope, *thread, now, slide, older, *columns, turns)
        if not rows:
            return None
        known = [_message(thread.npc_id, row[2:]) for row in rows]
        seq, turn_id, own = known[-1].seq, known[-1].turn_id, f"msg-{rows[0][1]}-"
        stored = [
            _new_message(thread.npc_id, message, f"{own}{seq + place}", seq + place, turn_id + turn, now)
            for place, (message, turn) in enumerate(zip(messages, turns, strict=True), 1)
        ]
        return Appended(stored, 0, [*known, *stored][-tail:] if tail else [])

    async def latest(
        self,
        scope: Scope,
        thread: ThreadKey,
        limit: int,
        *,
        before: int | None = None,
        whole_turns: bool = False,
    ) -> list[Message]:
        """See :meth:`wenmai.stores.base.Logs.latest`."""
        check_range("limit", limit, 1, READ_LIMIT)
        sql = _LATEST_WHOLE if whole_turns else _LATEST
        return await self._fetch(sql, scope, thread, _END if before is None else before, limit)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.base.Logs.read`."""
        check_range("limit", limit, 1, READ_LIMIT)
        return await self._fetch(_FROM, scope, thread, start, limit)

    async def settle(
        self,
        scope: Scope,
        thread: ThreadKey,
        seq: int,
        *,
        content: str,
        completed: bool = True,
        tokens: int = 0,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message | None:
        """See :meth:`wenmai.stores.base.Logs.settle`."""
        filled = (content, completed, tokens, None if metadata is None else _json(metadata))
        settled = await self._fetch(_SETTLE, scope, thread, seq, *filled)
        return settled[0] if settled else None

    async def threads(self, scope: Scope, session_id: str) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.base.Logs.threads`."""
        rows = await self._database.fetch(_THREADS, *scope, session_id, self._clock())
        return [ThreadInfo(unescape(npc_id), *rest) for npc_id, *rest in rows]

    async def erase(self, scope: Scope, session_id: str, npc_id: str | None = None) -> int:
        """See :meth:`wenmai.stores.base.Logs.erase`."""
        async with self._database.transaction() as run:
            erased = 0
            for session in await run(_HOLD_SESSION, *scope, session_id):
                held = [row["thread"] for row in await run(_HOLD_THREADS, session["row_id"], npc_id)]
                erased = (await run(_ERASE, held))[0]["count"]
                await run("DELETE FROM threads WHERE thread = ANY($1::bigint[])", held)
        return erased

    async def _fetch(self, sql: str, scope: Scope, thread: ThreadKey, *arguments: Any) -> list[Message]:
        at = (*scope, thread.session_id, self._clock(), thread.npc_id)
        return [_message(thread.npc_id, row) for row in await self._database.fetch(sql, *at, *arguments)]


def _is_usual(messages: Sequence[NewMessage], tail: int) -> bool:
    """Whether the one statement may do it: no id can be known yet, and no turn of the tail becomes unfinished."""
    return all(message.id is None and (message.completed or not tail) for message in messages)


def _batch_columns(messages: Sequence[NewMessage]) -> list[list[Any] | None]:
    """The messages as arrays, all but their ids; None where all are what the statements take for granted."""
    return [
        [message.role for message in messages],
        [message.content for message in messages],
        _unless_all(None, [message.timestamp for message in messages]),
        _unless_all(None, [message.name for message in messages]),
        _unless_all(None, [None if m.tool_calls is None else _json(m.tool_calls) for m in messages]),
        _unless_all(None, [message.tool_call_id for message in messages]),
        _unless_all(0, [message.tokens for message in messages]),
        _unless_all(True, [message.completed for message in messages]),
        _unless_all(None, [_json(m.metadata) if m.metadata else None for m in messages]),
    ]


def _unless_all(usual: object, values: list[Any]) -> list[Any] | None:
    return None if values.count(usual) == len(values) else values


def _new_message(npc_id: str, message: NewMessage, id_: str, seq: int, turn_id: int, now: datetime) -> Message:
    """The message as it was stored: what the store has given it, and copies of what the caller holds."""
    return Message(
        id_,
        seq,
        turn_id,
        npc_id,
        message.role,
        message.content,
        now if message.timestamp is None else message.timestamp.astimezone(UTC),
        message.name,
        None if message.tool_calls is None else _decode(_json(message.tool_calls)),
        message.tool_call_id,
        message.tokens,
        message.completed,
        _decode(_json(message.metadata)) if message.metadata else {},
    )


def _message(npc_id: str, row: Sequence[Any] | Row) -> Message:
    id_, seq, turn_id, role, content, timestamp, name, calls, call_id, tokens, completed, metadata = row
    return Message(
        unescape(id_),
        seq,
        turn_id,
        npc_id,
        role,
        unescape(content),
        timestamp,
        None if name is None else unescape(name),
        None if calls is None else _decode(unescape(calls)),
        None if call_id is None else unescape(call_id),
        tokens,
        completed,
        {} if metadata is None else _decode(unescape(metadata)),
    )


def _json(value: Any) -> str:
    return _encode(value).decode()
