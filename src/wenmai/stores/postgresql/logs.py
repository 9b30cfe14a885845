"""The logs contract on PostgreSQL: an append is one statement or one function call, a read one statement."""

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from wenmai.clock import Clock
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.postgresql.appends import GroupCommit
from wenmai.stores.postgresql.database import Database, Run, unescape
from wenmai.stores.postgresql.messages import COLUMNS, batch_columns, new_message, none_if_all, to_json, to_message
from wenmai.stores.postgresql.purging import purge
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import ActiveThread, ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import MAX_EXAMINED, check_key, check_range, cursor_number
from wenmai.stores.values import check_completion, check_messages, check_owner, check_parts, check_read

APPEND_LIMIT = 1_000
READ_LIMIT = 10_000
_END = (1 << 63) - 1

_SESSION = (
    "c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = $4 "
    "AND ($5::text IS NULL OR c.incarnation = $5) AND (c.keep_until IS NULL OR c.keep_until > $6)"
)
_THREAD = f"""
WITH a AS MATERIALIZED (
  SELECT t.thread, t.label FROM conversations c JOIN threads t ON t.conversation = c.row_id
  WHERE {_SESSION} AND t.npc_id = $7
)"""
_APPEND = f"SELECT * FROM append_messages({', '.join(f'${number}' for number in range(1, 20))})"
# The thread is a subquery, not a join, so that the index scan yields the newest first and stops at the limit.
_LATEST = f"""{_THREAD}
SELECT {COLUMNS} FROM (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) AND seq < $8 ORDER BY seq DESC LIMIT $9
) m, a ORDER BY m.seq"""
_LATEST_WHOLE = f"""{_THREAD}
SELECT {COLUMNS} FROM (
  SELECT * FROM messages WHERE thread = (SELECT thread FROM a) AND seq < $8 AND turn_id NOT IN
    (SELECT turn_id FROM messages WHERE thread = (SELECT thread FROM a) AND NOT completed)
  ORDER BY seq DESC LIMIT $9
) m, a ORDER BY m.seq"""
_PARTS = f"""
SELECT part.place, {COLUMNS}
FROM unnest($5::text[], $6::text[], $7::text[], $8::bigint[], $9::bigint[]) WITH ORDINALITY
  AS part (session_id, incarnation, npc_id, start, most, place)
CROSS JOIN LATERAL (
  SELECT t.thread, t.label FROM conversations c JOIN threads t ON t.conversation = c.row_id
  WHERE c.tenant_id = $1 AND c.site_id = $2 AND c.user_id = $3 AND c.session_id = part.session_id
    AND (part.incarnation IS NULL OR c.incarnation = part.incarnation)
    AND (c.keep_until IS NULL OR c.keep_until > $4) AND t.npc_id = part.npc_id
) a
CROSS JOIN LATERAL (
  SELECT * FROM messages m WHERE m.thread = a.thread AND m.seq >= part.start ORDER BY m.seq LIMIT part.most
) m
ORDER BY part.place, m.seq"""
_COMPLETE = f"""{_THREAD}
UPDATE messages m SET content = $10, completed = $11, tokens = $12, metadata = coalesce($13::json, m.metadata)
FROM a WHERE m.thread = a.thread AND m.seq = $8 AND NOT m.completed
  AND coalesce(m.given_id, 'msg-' || a.label || '-' || m.seq) = $9
RETURNING {COLUMNS}"""
_THREADS = f"""
SELECT t.npc_id, latest.seq, latest.turn_id, earliest.timestamp, latest.timestamp
FROM conversations c JOIN threads t ON t.conversation = c.row_id
JOIN messages earliest ON earliest.thread = t.thread AND earliest.seq = 1
JOIN LATERAL (
  SELECT * FROM messages m WHERE m.thread = t.thread ORDER BY m.seq DESC LIMIT 1
) latest ON TRUE
WHERE {_SESSION} ORDER BY t.thread"""
_ACTIVE = """
SELECT c.row_id, c.tenant_id, c.site_id, c.user_id, c.session_id, c.incarnation, c.updated_at, t.npc_id, latest.seq
FROM (SELECT * FROM conversations WHERE row_id > $1 ORDER BY row_id LIMIT $2) c
LEFT JOIN threads t ON t.conversation = c.row_id AND (c.keep_until IS NULL OR c.keep_until > $3)
  AND ($4::timestamptz IS NULL OR c.updated_at > $4)
LEFT JOIN LATERAL (
  SELECT m.seq FROM messages m WHERE m.thread = t.thread ORDER BY m.seq DESC LIMIT 1
) latest ON TRUE
ORDER BY c.row_id"""
# Lock order: the session first, as a delete does, then its threads by number, so that there are no deadlocks.
_LOCK_SESSION = f"SELECT c.row_id FROM conversations c WHERE {_SESSION} FOR UPDATE"
_LOCK_THREADS = """
SELECT t.thread FROM threads t WHERE t.conversation = $1 AND ($2::text IS NULL OR t.npc_id = $2)
ORDER BY t.thread FOR UPDATE"""
_COUNT = "SELECT count(*) FROM messages WHERE thread = ANY($1::bigint[])"
_TRUNCATE = """
WITH cut AS (DELETE FROM messages WHERE thread = $1 AND seq > $2 RETURNING 1) SELECT count(*) FROM cut"""
# Generated ids are stored explicitly, and future ones use a new label. The thread's row is replaced by another with the
# same number, so an append whose snapshot has the old row finds it deleted.
_RELABEL = (
    """
    UPDATE messages m SET given_id = 'msg-' || t.label || '-' || m.seq
    FROM threads t WHERE t.thread = $1 AND m.thread = $1 AND m.given_id IS NULL""",
    """
    WITH gone AS (DELETE FROM threads WHERE thread = $1 RETURNING *)
    INSERT INTO threads (thread, conversation, incarnation, npc_id, label) OVERRIDING SYSTEM VALUE
    SELECT thread, conversation, incarnation, npc_id, left(gen_random_uuid()::text, 8) FROM gone""",
    "DELETE FROM purged_threads WHERE thread = $1",
)
_LABEL = "SELECT label FROM threads WHERE thread = $1"

_GENERATED_ID = re.compile(r"msg-[0-9a-f]{8}-[1-9][0-9]*")
"""The format of generated ids."""


class PostgresqlLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._appends = GroupCommit(database)
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
        """See :meth:`wenmai.stores.contracts.Logs.append`."""
        check_range("messages", len(messages), 1, APPEND_LIMIT)
        check_range("tail", tail, 0, READ_LIMIT)
        check_owner(scope, thread.session_id, thread.persona_id)
        check_key("persona_id", thread.persona_id)
        check_messages(messages)
        now = self._clock()
        columns = batch_columns(messages)
        if _can_append_fast(messages, tail):
            appended = await self._append_fast(scope, thread, messages, columns, tail, now, slide=slide)
            if appended is not None:
                return appended
        if any(message.id and _GENERATED_ID.fullmatch(message.id) for message in messages):
            await self._avoid_id_collision(scope, thread, [message.id for message in messages if message.id])
        ids = none_if_all(None, [message.id for message in messages])
        rows = await self._database.fetch(_APPEND, *scope, *thread, now, slide, tail, *columns, ids)
        if rows[0]["place"] is None:
            refused = SessionExpired if rows[0]["role"] == "expired" else SessionNotFound
            raise refused(thread.session_id)
        stored = [
            new_message(thread.persona_id, message, unescape(row["id"]), row["seq"], row["turn_id"], now)
            if row["role"] is None
            else to_message(thread.persona_id, row[2:])
            for message, row in zip(messages, rows, strict=False)
        ]
        repeated = sum(row["role"] is not None for row in rows[: len(messages)])
        latest = [to_message(thread.persona_id, row[2:]) for row in rows[: len(messages) - 1 : -1]]
        return Appended(stored, repeated, latest, rows[0]["incarnation"])

    async def _append_fast(
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
        """Append with the fast statement; None if its assumptions do not hold."""
        turns = [*accumulate(int(message.role == "user") for message in messages)]
        older = max(tail - len(messages), 1)
        rows = await self._appends.append(*scope, *thread, now, slide, older, *columns, turns)
        if not rows:
            return None
        known = [to_message(thread.persona_id, row[3:]) for row in rows]
        seq, turn_id, own = known[-1].seq, known[-1].turn_id, f"msg-{rows[0][2]}-"
        stored = [
            new_message(thread.persona_id, message, f"{own}{seq + place}", seq + place, turn_id + turn, now)
            for place, (message, turn) in enumerate(zip(messages, turns, strict=True), 1)
        ]
        return Appended(stored, 0, [*known, *stored][-tail:] if tail else [], rows[0][1])

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
        sql = _LATEST_WHOLE if whole_turns else _LATEST
        return await self._fetch(sql, scope, thread, _END if before is None else before, limit)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        return (await self.read_parts(scope, [ThreadPart(thread, start, limit)]))[0]

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """See :meth:`wenmai.stores.contracts.Logs.read_parts`."""
        check_parts(scope, parts)
        threads = [part.thread for part in parts]
        columns = (
            [thread.session_id for thread in threads],
            [thread.incarnation for thread in threads],
            [thread.persona_id for thread in threads],
            [part.start for part in parts],
            [part.limit for part in parts],
        )
        found: list[list[Message]] = [[] for _ in parts]
        for place, *row in await self._database.fetch(_PARTS, *scope, self._clock(), *columns):
            found[place - 1].append(to_message(threads[place - 1].persona_id, row))
        return found

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
        values = (content, completed, tokens, None if metadata is None else to_json(metadata))
        filled = await self._fetch(_COMPLETE, scope, thread, message.seq, message.id, *values)
        return filled[0] if filled else None

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""
        check_owner(scope, session_id)
        rows = await self._database.fetch(_THREADS, *scope, session_id, incarnation, self._clock())
        return [ThreadInfo(unescape(persona_id), *rest) for persona_id, *rest in rows]

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = MAX_EXAMINED
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        check_range("limit", limit, 1, MAX_EXAMINED)
        rows = await self._database.fetch(_ACTIVE, cursor_number(cursor), limit, self._clock(), since)
        items = []
        for _, *texts, active_at, persona_id, seq in rows:
            if seq is not None:
                tenant_id, site_id, user_id, session_id, incarnation = map(unescape, texts)
                thread = ThreadKey(session_id, unescape(persona_id), incarnation)
                items.append(ActiveThread(Scope(tenant_id, site_id, user_id), thread, seq, active_at))
        more = len({row["row_id"] for row in rows}) == limit
        return ActiveThreads(items, str(rows[-1]["row_id"]) if more else None)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        check_owner(scope, session_id, persona_id or "")
        async with self._database.transaction() as run:
            locked = await self._lock(run, scope, session_id, persona_id, incarnation)
            erased: int = (await run(_COUNT, locked))[0]["count"] if locked else 0
            await run("DELETE FROM threads WHERE thread = ANY($1::bigint[])", locked)
        await purge(self._database)
        return erased

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_range("last_seq", last_seq, 0, _END)
        removed = 0
        async with self._database.transaction() as run:
            for locked in await self._lock(run, scope, *thread):
                removed = (await run(_TRUNCATE, locked, last_seq))[0]["count"]
                for step in _RELABEL if removed else ():
                    await run(step, locked)
        return removed

    async def _avoid_id_collision(self, scope: Scope, thread: ThreadKey, given: Sequence[str]) -> None:
        """Relabel the thread if it could generate one of these ids for another message."""
        async with self._database.transaction() as run:
            for locked in await self._lock(run, scope, *thread):
                label = (await run(_LABEL, locked))[0]["label"]
                if any(id_.startswith(f"msg-{label}-") for id_ in given):
                    for step in _RELABEL:
                        await run(step, locked)

    async def _lock(
        self, run: Run, scope: Scope, session_id: str, persona_id: str | None, incarnation: str | None
    ) -> list[int]:
        """Lock one thread, or all threads of the session, until the transaction ends; return their numbers."""
        for session in await run(_LOCK_SESSION, *scope, session_id, incarnation, self._clock()):
            return [row["thread"] for row in await run(_LOCK_THREADS, session["row_id"], persona_id)]
        return []

    async def _fetch(self, sql: str, scope: Scope, thread: ThreadKey, *arguments: Any) -> list[Message]:
        at = (*scope, thread.session_id, thread.incarnation, self._clock(), thread.persona_id)
        return [to_message(thread.persona_id, row) for row in await self._database.fetch(sql, *at, *arguments)]


def _can_append_fast(messages: Sequence[NewMessage], tail: int) -> bool:
    """Whether the fast statement applies: no given ids, and no uncompleted messages if a tail is requested."""
    return all(message.id is None and (message.completed or not tail) for message in messages)
