"""The logs contract: reads by the numbers in a thread's head, never by a search."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from wenmai.clock import Clock, from_micros, to_micros
from wenmai.errors import InvalidInput
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.elasticsearch.appends import Appends
from wenmai.stores.elasticsearch.client import Client, Found
from wenmai.stores.elasticsearch.commits import Commits
from wenmai.stores.elasticsearch.heads import Head
from wenmai.stores.elasticsearch.indices import SESSIONS
from wenmai.stores.elasticsearch.retrying import Locks, attempts
from wenmai.stores.elasticsearch.rows import Row, row_of, session_ref
from wenmai.stores.elasticsearch.sessions import living_session
from wenmai.stores.elasticsearch.threads import (
    StoredHead,
    head_ref,
    read_head,
    read_messages,
    remove_documents,
    remove_threads,
)
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import ActiveThread, ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import MAX_EXAMINED, check_key, check_range
from wenmai.stores.values import check_completion, check_messages, check_owner, check_parts, check_read

MAX_BATCH, MAX_READ, MAX_SEQ = 1_000, 10_000, 2**63 - 1
_ID_DIGITS = 40
_SCAN = 100
"""Messages that are read at once to find the first of a turn."""


class ElasticsearchLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._locks = Locks()
        self._commits = Commits(client)
        self._appends = Appends(client, clock, self._commits, self._locks)

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
        return await self._appends.append(scope, thread, messages, tail=tail, slide=slide)

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
        async for _ in attempts(self._client.name):
            _, stored = await self._head(scope, thread)
            if stored.head is None:
                return []
            seqs = stored.head.visible(limit, before=before, whole_turns=whole_turns)
            messages = await read_messages(self._client, stored.head, seqs)
            if messages is not None:
                return messages
        raise AssertionError("attempts end with an error")

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        check_range("limit", limit, 1, MAX_READ)
        check_read(scope, thread, start=start)
        async for _ in attempts(self._client.name):
            _, stored = await self._head(scope, thread)
            if stored.head is None:
                return []
            first = max(start, 1)
            seqs = range(first, min(first + limit, stored.head.last_seq + 1))
            messages = await read_messages(self._client, stored.head, seqs)
            if messages is not None:
                return messages
        raise AssertionError("attempts end with an error")

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """See :meth:`wenmai.stores.contracts.Logs.read_parts`."""
        check_parts(scope, parts)
        return await asyncio.gather(*(self.read(scope, key, start=start, limit=limit) for key, start, limit in parts))

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
        changes: dict[str, Any] = {"content": content, "completed": completed, "tokens": tokens}
        if metadata is not None:
            changes["metadata"] = msgspec.json.decode(msgspec.json.encode(metadata))
        return await run_to_completion(self._complete(scope, thread, message, changes))

    async def _complete(
        self, scope: Scope, thread: ThreadKey, message: Message, changes: Mapping[str, Any]
    ) -> Message | None:
        session = session_ref(self._client, scope, thread.session_id)
        ref = head_ref(self._client, session.id, thread.persona_id)
        async with self._locks.held(ref.id):
            async for _ in attempts(self._client.name):
                _, stored = await self._head(scope, thread)
                if stored.head is None or not stored.head.is_open(message.seq):
                    return None
                read = await read_messages(self._client, stored.head, [message.seq])
                if read is None:
                    continue
                if read[0].id != message.id:
                    return None
                completed = msgspec.structs.replace(read[0], **changes)
                head = self._commits.begin(ref, stored.head)
                head.complete(completed)
                if await self._commits.commit(scope, thread.session_id, ref, stored, head) is not None:
                    return completed
        raise AssertionError("attempts end with an error")

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""
        check_owner(scope, session_id)
        session = session_ref(self._client, scope, session_id)
        row = living_session((await self._client.get([session]))[0], scope, self._clock(), incarnation)
        heads = await self._heads(session.id, row) if row else []
        return [
            ThreadInfo(
                persona_id=head.persona_id,
                message_count=head.last_seq,
                turn_count=head.last_turn,
                first_at=datetime.fromisoformat(head.first_at),
                last_at=datetime.fromisoformat(head.last_at),
            )
            for head in heads
        ]

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = MAX_EXAMINED
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        check_range("limit", limit, 1, MAX_EXAMINED)
        if cursor is not None and not (len(cursor) == _ID_DIGITS and set(cursor) <= set("0123456789abcdef")):
            raise InvalidInput("cursor", cursor, "a cursor of an earlier page")
        now = self._clock()
        asked: dict[str, Any] = {
            "query": {"range": {"updated_at": {"gt": to_micros(since)}}} if since else {"match_all": {}},
            "sort": [{"ref": "asc"}],
            "size": limit,
            "track_total_hits": False,
        }
        if cursor is not None:
            asked["search_after"] = [cursor]
        answer = await self._client.search(self._client.index(SESSIONS), asked, fresh=True)
        hits = answer["hits"]["hits"]
        rows = [(hit["_id"], row) for hit in hits if (row := row_of(Found(hit["_source"], 0, 0, 0))) is not None]
        heads = await asyncio.gather(*(self._heads(id_, row) for id_, row in rows if row.is_alive(now)))
        living = [row for _, row in rows if row.is_alive(now)]
        items = [
            ActiveThread(
                Scope(row.tenant_id, row.site_id, row.user_id),
                ThreadKey(row.key, head.persona_id, row.incarnation),
                head.last_seq,
                from_micros(row.updated_at),
            )
            for row, those in zip(living, heads, strict=True)
            for head in those
        ]
        return ActiveThreads(items, hits[-1]["_id"] if len(hits) == limit else None)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        check_owner(scope, session_id, persona_id or "")
        session = session_ref(self._client, scope, session_id)
        row = living_session((await self._client.get([session]))[0], scope, self._clock(), incarnation)
        if row is None:
            return 0
        return await remove_threads(self._client, session.id, row.personas, row.incarnation, only=persona_id)

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_range("last_seq", last_seq, 0, MAX_SEQ)
        if last_seq == 0:
            return await self.erase(scope, thread.session_id, thread.persona_id, incarnation=thread.incarnation)
        session = session_ref(self._client, scope, thread.session_id)
        ref = head_ref(self._client, session.id, thread.persona_id)
        async with self._locks.held(ref.id):
            async for _ in attempts(self._client.name):
                _, stored = await self._head(scope, thread)
                if stored.head is None or stored.head.last_seq <= last_seq:
                    return 0
                last = await self._last_turn(stored.head, last_seq)
                if last is None:
                    continue
                head = stored.head.without(last_seq, *last)
                if await self._commits.commit(scope, thread.session_id, ref, stored, head) is not None:
                    await remove_documents(self._client, stored.head, last_seq)
                    return stored.head.last_seq - last_seq
        raise AssertionError("attempts end with an error")

    async def _last_turn(self, head: Head, last_seq: int) -> tuple[Message, int] | None:
        """The message with that number, and the number of the first of its turn; None if the thread has changed."""
        end, last = last_seq, None
        while end > 0:
            messages = await read_messages(self._client, head, range(max(1, end - _SCAN + 1), end + 1))
            if messages is None:
                return None
            last = last or messages[-1]
            before = [message.seq for message in messages if message.turn_id != last.turn_id]
            if before:
                return last, before[-1] + 1
            end -= _SCAN
        return None if last is None else (last, 1)

    async def _head(self, scope: Scope, thread: ThreadKey) -> tuple[Row | None, StoredHead]:
        """The session and the head of the thread, as they are now."""
        session = session_ref(self._client, scope, thread.session_id)
        owner, found = await self._client.get([session, head_ref(self._client, session.id, thread.persona_id)])
        row = living_session(owner, scope, self._clock(), thread.incarnation)
        return row, read_head(found, row.incarnation) if row else StoredHead(None, None)

    async def _heads(self, session: str, row: Row) -> list[Head]:
        refs = [head_ref(self._client, session, persona) for persona in row.personas]
        found = await self._client.get(refs) if refs else []
        return [head for each in found if (head := read_head(each, row.incarnation).head) is not None]
