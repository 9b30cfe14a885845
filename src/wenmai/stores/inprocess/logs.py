"""The logs contract in process: lists attached to the session's row, so a thread never outlives its session."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from secrets import token_hex
from typing import Any

from msgspec.structs import replace

from wenmai.clock import Clock
from wenmai.errors import InvalidInput, SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.rows import Entry, Row, Thread, decode, encode
from wenmai.stores.records import Message, NewMessage, Session
from wenmai.stores.structs import ActiveThread, ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import MAX_EXAMINED, check_key, check_range
from wenmai.stores.values import check_completion, check_messages, check_owner, check_parts, check_read

MAX_BATCH = 1_000
MAX_READ = 10_000
MAX_SEQ = 2**63 - 1
_CURSOR = re.compile(r"(\d{1,18})\.(-?\d{1,18})\.(\d{1,18})", re.ASCII)
_FIRST = f"0.-{10**18 - 1}.0"
"""Before all sessions of the first owner."""


class InProcessLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, documents: InProcessDocuments, clock: Clock) -> None:
        self._documents = documents
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
        check_range("messages", len(messages), 1, MAX_BATCH)
        check_range("tail", tail, 0, MAX_READ)
        check_owner(scope, thread.session_id, thread.persona_id)
        check_key("persona_id", thread.persona_id)
        check_messages(messages)
        row = self._session(scope, thread.session_id, thread.incarnation)
        if row is None:
            raise SessionNotFound(thread.session_id)
        session = decode(row.raw, Session)
        now = self._clock()
        if slide and session.expires_at <= now:
            raise SessionExpired(thread.session_id)
        log = row.threads.get(thread.persona_id) or Thread()
        batch = self._number_batch(log, thread, messages)
        fresh = [(message, encode(message)) for message in batch if message.seq > len(log.entries)]
        # Nothing was written above and nothing can fail below, so all messages are appended, or none.
        fresh = list({message.seq: (message, raw) for message, raw in fresh}.values())
        row.threads[thread.persona_id] = log
        for message, raw in fresh:
            _add(log, message, raw)
        if slide:
            lifetime = timedelta(seconds=session.lifetime_seconds)
            row.raw, row.updated_at = encode(replace(session, expires_at=now + lifetime)), now
        return Appended(
            messages=[decode(log.entries[message.seq - 1].raw, Message) for message in batch],
            repeated=len(batch) - len(fresh),
            tail=_latest(log, tail, len(log.entries), whole_turns=True),
            incarnation=session.incarnation,
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
        check_range("limit", limit, 1, MAX_READ)
        check_read(scope, thread, before=before)
        log = self._thread(scope, thread)
        end = len(log.entries) if before is None else max(0, min(before - 1, len(log.entries)))
        return _latest(log, limit, end, whole_turns=whole_turns)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        check_range("limit", limit, 1, MAX_READ)
        check_read(scope, thread, start=start)
        first = max(start, 1) - 1
        entries = self._thread(scope, thread).entries[first : first + limit]
        return [decode(entry.raw, Message) for entry in entries]

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """See :meth:`wenmai.stores.contracts.Logs.read_parts`."""
        check_parts(scope, parts)
        return [await self.read(scope, thread, start=start, limit=limit) for thread, start, limit in parts]

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
        log = self._thread(scope, thread)
        if log.seq_of.get(message.id) != message.seq or log.entries[message.seq - 1].completed:
            return None
        entry = log.entries[message.seq - 1]
        filled = replace(decode(entry.raw, Message), content=content, completed=completed, tokens=tokens)
        if metadata is not None:
            filled = replace(filled, metadata=dict(metadata))
        entry.raw, entry.completed = encode(filled), completed
        if completed:
            log.open_messages[entry.turn_id] -= 1
            if not log.open_messages[entry.turn_id]:
                del log.open_messages[entry.turn_id]
        return decode(entry.raw, Message)

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""
        check_owner(scope, session_id)
        row = self._session(scope, session_id, incarnation)
        return [_info(persona_id, log) for persona_id, log in row.threads.items()] if row else []

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = MAX_EXAMINED
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        check_range("limit", limit, 1, MAX_EXAMINED)
        place = _CURSOR.fullmatch(_FIRST if cursor is None else cursor)
        if place is None:
            raise InvalidInput("cursor", cursor, "a cursor of an earlier page")
        owners, created, serial = map(int, place.groups())
        found = self._documents.sessions_after(owners, (created, serial), limit)
        now = self._clock()
        items = [
            ActiveThread(scope, decode(row.raw, Session).thread(persona_id), len(log.entries), row.updated_at)
            for _, _, scope, row in found
            if row.is_alive(now) and (since is None or row.updated_at > since)
            for persona_id, log in row.threads.items()
        ]
        if len(found) < limit:
            return ActiveThreads(items, None)
        owners, (created, serial), _, _ = found[-1]
        return ActiveThreads(items, f"{owners}.{created}.{serial}")

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        check_owner(scope, session_id, persona_id or "")
        row = self._session(scope, session_id, incarnation)
        if row is None:
            return 0
        return sum(len(row.threads.pop(name).entries) for name in _chosen(row, persona_id))

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_range("last_seq", last_seq, 0, MAX_SEQ)
        row = self._session(scope, thread.session_id, thread.incarnation)
        log = row.threads.get(thread.persona_id) if row else None
        if row is None or log is None or len(log.entries) <= last_seq:
            return 0
        kept = [decode(entry.raw, Message) for entry in log.entries[:last_seq]]
        removed = len(log.entries) - last_seq
        del row.threads[thread.persona_id]
        if kept:
            shorter = row.threads[thread.persona_id] = Thread()
            for message in kept:
                _add(shorter, message, encode(message))
        return removed

    def _session(self, scope: Scope, session_id: str, incarnation: str | None) -> Row | None:
        row = self._documents.row(scope, Session, session_id)
        if row is None or incarnation in (None, decode(row.raw, Session).incarnation):
            return row
        return None

    def _thread(self, scope: Scope, thread: ThreadKey) -> Thread:
        row = self._session(scope, thread.session_id, thread.incarnation)
        return (row.threads.get(thread.persona_id) if row else None) or Thread()

    def _number_batch(self, log: Thread, thread: ThreadKey, messages: Sequence[NewMessage]) -> list[Message]:
        """The batch as it will be stored: repeated messages as stored, new ones with their numbers."""
        seq, turn, now = len(log.entries), log.last_turn, self._clock()
        batch: list[Message] = []
        new: dict[str, Message] = {}
        for message in messages:
            if message.id is not None:
                if message.id in log.seq_of:
                    batch.append(decode(log.entries[log.seq_of[message.id] - 1].raw, Message))
                    continue
                if message.id in new:
                    batch.append(new[message.id])
                    continue
            seq += 1
            turn += message.role == "user" or turn == 0
            timestamp = message.timestamp or now
            numbered = Message(
                id=message.id or f"msg-{token_hex(8)}",
                seq=seq,
                turn_id=turn,
                persona_id=thread.persona_id,
                role=message.role,
                content=message.content,
                timestamp=timestamp.astimezone(UTC),
                name=message.name,
                tool_calls=message.tool_calls,
                tool_call_id=message.tool_call_id,
                tokens=message.tokens,
                completed=message.completed,
                metadata=message.metadata,
            )
            new[numbered.id] = numbered
            batch.append(numbered)
        return batch


def _add(log: Thread, message: Message, raw: bytes) -> None:
    log.entries.append(Entry(raw=raw, turn_id=message.turn_id, completed=message.completed))
    log.seq_of[message.id] = message.seq
    log.last_turn = message.turn_id
    if not message.completed:
        log.open_messages[message.turn_id] = log.open_messages.get(message.turn_id, 0) + 1


def _latest(log: Thread, limit: int, end: int, *, whole_turns: bool) -> list[Message]:
    """The newest ``limit`` of the first ``end`` messages, ascending."""
    chosen: list[Entry] = []
    position = end
    while position > 0 and len(chosen) < limit:
        position -= 1
        entry = log.entries[position]
        if not (whole_turns and entry.turn_id in log.open_messages):
            chosen.append(entry)
    return [decode(entry.raw, Message) for entry in reversed(chosen)]


def _info(persona_id: str, log: Thread) -> ThreadInfo:
    return ThreadInfo(
        persona_id=persona_id,
        message_count=len(log.entries),
        turn_count=log.last_turn,
        first_at=decode(log.entries[0].raw, Message).timestamp,
        last_at=decode(log.entries[-1].raw, Message).timestamp,
    )


def _chosen(row: Row, persona_id: str | None) -> list[str]:
    return [name for name in row.threads if persona_id in (None, name)]
