"""Appends: those of one thread that wait at the same time are committed together."""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from secrets import token_hex

import msgspec

from wenmai.clock import Clock
from wenmai.errors import SessionExpired, SessionNotFound, WenmaiError
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.elasticsearch.client import FAILED, Client, Found, Ref
from wenmai.stores.elasticsearch.commits import Commits, slide_write
from wenmai.stores.elasticsearch.heads import Head
from wenmai.stores.elasticsearch.retrying import Locks, attempts
from wenmai.stores.elasticsearch.rows import Row, session_ref
from wenmai.stores.elasticsearch.sessions import living_session
from wenmai.stores.elasticsearch.threads import (
    StoredHead,
    find_by_ids,
    head_ref,
    read_head,
    read_messages,
    remove_documents,
    remove_threads,
)
from wenmai.stores.records import Message, NewMessage, Session
from wenmai.stores.structs import Appended

MAX_MESSAGES = 1_000
"""Messages that are committed together, if more than one append waits."""


@dataclass(slots=True, eq=False)
class Queued:
    """An append that waits, and, while it is being committed, its messages and the numbers of its tail."""

    incarnation: str | None
    messages: Sequence[NewMessage]
    tail: int
    slide: bool
    done: "asyncio.Future[Appended]"
    numbered: list[Message] = field(default_factory=list)
    repeated: int = 0
    shown: list[int] = field(default_factory=list)


class Appends:
    """See :meth:`wenmai.stores.contracts.Logs.append`."""

    def __init__(self, client: Client, clock: Clock, commits: Commits, locks: Locks) -> None:
        self._client = client
        self._clock = clock
        self._commits = commits
        self._locks = locks
        self._queues: dict[str, deque[Queued]] = {}

    async def append(
        self, scope: Scope, thread: ThreadKey, messages: Sequence[NewMessage], *, tail: int, slide: bool
    ) -> Appended:
        """Append, together with the others that wait for the thread."""
        session = session_ref(self._client, scope, thread.session_id)
        ref = head_ref(self._client, session.id, thread.persona_id)
        done: asyncio.Future[Appended] = asyncio.get_running_loop().create_future()
        queued = Queued(thread.incarnation, messages, tail, slide, done)
        key = f"{ref.id} {scope.user_id}"
        queue = self._queues.setdefault(key, deque())
        queue.append(queued)
        try:
            async with self._locks.held(ref.id):
                while not done.done():
                    await run_to_completion(self._commit_next(scope, thread, session, ref, queue))
        finally:
            if queued in queue:
                queue.remove(queued)
            if not queue:
                self._queues.pop(key, None)
        return done.result()

    async def _commit_next(self, scope: Scope, thread: ThreadKey, session: Ref, ref: Ref, queue: deque[Queued]) -> None:
        batch: list[Queued] = []
        size = 0
        while queue and (not batch or size + len(queue[0].messages) <= MAX_MESSAGES):
            batch.append(queue.popleft())
            size += len(batch[-1].messages)
        try:
            async for _ in attempts(self._client.name):
                waiting = [each for each in batch if not each.done.done()]
                if not waiting or await self._try_commit(scope, thread, session, ref, waiting):
                    return
        except WenmaiError as problem:
            for each in batch:
                if not each.done.done():
                    each.done.set_exception(problem)

    async def _try_commit(
        self, scope: Scope, thread: ThreadKey, session: Ref, ref: Ref, batch: Sequence[Queued]
    ) -> bool:
        """Commit the appends on condition of what is read now; False if it changed meanwhile."""
        now = self._clock()
        owner, found = await self._client.get([session, ref])
        row = living_session(owner, scope, now, None)
        batch = [each for each in batch if _may_append(row, thread, each, now)]
        if row is None or not batch:
            return True
        before = read_head(found, row.incarnation)
        slide = any(each.slide for each in batch)
        if before.head is None:
            if before.former is not None:
                await remove_documents(self._client, before.former)
            if not await self._commits.register(session, row, owner, thread.persona_id, now if slide else None):
                return False
            slide = False
        base = before.head or Head(
            session=session.id, incarnation=row.incarnation, persona_id=thread.persona_id, label=token_hex(8)
        )
        known = await find_by_ids(self._client, base, [m.id for each in batch for m in each.messages if m.id])
        if known is None:
            return False
        head = self._commits.begin(ref, base)
        for each in batch:
            _number(each, head, known, now)
        return await self._write(scope, thread, (session, row, owner), (ref, before), base, head, batch, slide=slide)

    async def _write(
        self,
        scope: Scope,
        thread: ThreadKey,
        session: tuple[Ref, Row, Found | None],
        stored: tuple[Ref, StoredHead],
        base: Head,
        head: Head,
        batch: Sequence[Queued],
        *,
        slide: bool,
    ) -> bool:
        session_at, row, _ = session
        ref, before = stored
        slid = slide_write(*session, self._clock()) if slide else None
        also = [] if slid is None else [slid]
        recent = self._commits.recent(ref, base)
        new = {**recent, **{each.message.seq: each.message for each in head.pending}}
        older = sorted({seq for each in batch for seq in each.shown if seq not in new})
        read = asyncio.ensure_future(read_messages(self._client, base, older))
        try:
            if head.last_seq > base.last_seq:
                done = await self._commits.commit(scope, thread.session_id, ref, before, head, also)
            else:
                done = await self._client.write(also)
        finally:
            await asyncio.wait([read])
        if done is None:
            return False
        if before.head is None and not await self._still_there(scope, session_at, row):
            await remove_threads(self._client, session_at.id, [thread.persona_id], row.incarnation)
            return False
        if any(result in (None, FAILED) for result in done):
            await self._commits.slide(session_at, row.incarnation, self._clock())
        shown = read.result()
        messages = None if shown is None else new | dict(zip(older, shown, strict=True))
        for each in batch:
            tail = [] if messages is None else [messages[seq] for seq in each.shown]
            each.done.set_result(Appended(each.numbered, each.repeated, _fresh(tail), row.incarnation))
        return True

    async def _still_there(self, scope: Scope, session: Ref, row: Row) -> bool:
        """Whether the session exists after the first append to a thread, which its removal may not have seen."""
        [found] = await self._client.get([session])
        return living_session(found, scope, self._clock(), row.incarnation) is not None


def _may_append(row: Row | None, thread: ThreadKey, queued: Queued, now: datetime) -> bool:
    if row is None or queued.incarnation not in (None, row.incarnation):
        queued.done.set_exception(SessionNotFound(thread.session_id))
        return False
    if queued.slide and row.decoded(Session).expires_at <= now:
        queued.done.set_exception(SessionExpired(thread.session_id))
        return False
    return True


def _number(queued: Queued, head: Head, known: dict[str, Message], now: datetime) -> None:
    """Add the messages to the head, but for those that the thread has."""
    queued.numbered, queued.repeated = [], 0
    for message in queued.messages:
        numbered = known.get(message.id) if message.id else None
        if numbered is not None:
            queued.repeated += 1
        else:
            numbered = _numbered(message, head, now)
            head.add(numbered)
            known[numbered.id] = numbered
            head.named = head.named or message.id is not None
        queued.numbered.append(numbered)
    queued.shown = head.visible(queued.tail, whole_turns=True) if queued.tail else []
    queued.numbered = _fresh(queued.numbered)


def _numbered(message: NewMessage, head: Head, now: datetime) -> Message:
    seq = head.last_seq + 1
    begins = message.role == "user" or not head.last_turn
    return Message(
        id=message.id or f"msg-{token_hex(8)}-{seq}",
        seq=seq,
        turn_id=head.last_turn + begins,
        persona_id=head.persona_id,
        role=message.role,
        content=message.content,
        timestamp=(message.timestamp or now).astimezone(UTC),
        name=message.name,
        tool_calls=message.tool_calls,
        tool_call_id=message.tool_call_id,
        tokens=message.tokens,
        completed=message.completed,
        metadata=message.metadata,
    )


def _fresh(messages: Sequence[Message]) -> list[Message]:
    """Copies that share nothing mutable with the originals."""
    return msgspec.json.decode(msgspec.json.encode(messages), type=list[Message])
