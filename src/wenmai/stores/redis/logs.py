"""The logs contract on Redis: a list per thread; an append and its tail are one script and one round trip."""

import asyncio
import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from wenmai.clock import Clock, to_micros
from wenmai.errors import SessionExpired, SessionNotFound
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import SLIDE_STEP
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.redis.enumeration import enumerate_threads
from wenmai.stores.redis.keys import Keys
from wenmai.stores.redis.link import Link, Word
from wenmai.stores.redis.log_scripts import ANY, APPEND, COMPLETE, ERASE, LATEST, READ, THREADS, TRUNCATE
from wenmai.stores.redis.messages import Request, decode, decode_all, decode_appended, encode, split, words_of
from wenmai.stores.redis.retention import Retention
from wenmai.stores.redis.rows import rfc3339
from wenmai.stores.structs import ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import MAX_EXAMINED, check_key, check_range
from wenmai.stores.values import check_completion, check_messages, check_owner, check_parts, check_read

MAX_BATCH = 1_000
MAX_READ = 10_000
MAX_SEQ = 2**53
"""The largest integer that is exact in Lua."""
_STEP_MICROS = SLIDE_STEP.seconds * 1_000_000


class RedisLogs:
    """See :class:`wenmai.stores.contracts.Logs`.

    Every method is one round trip. Exceptions: :meth:`complete`, :meth:`threads` and the erasing of a session take two,
    and so does at most one append in a hundred, which extends the expiries of all keys of its session.
    """

    def __init__(self, link: Link, keys: Keys, clock: Clock, retention: Retention) -> None:
        self._link = link
        self._keys = keys
        self._clock = clock
        self._retention = retention

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
        now = self._clock()
        kept, grace = self._retention.kept_micros
        request = Request(
            user_id=scope.user_id,
            now=to_micros(now),
            incarnation=_incarnation_word(thread.incarnation),
            updated_at=rfc3339(now),
            slide=slide,
            slide_step=_STEP_MICROS,
            kept=kept,
            grace=grace,
            tail=tail,
            persona_id=thread.persona_id,
            label=secrets.token_hex(4),
            messages=[words_of(message, thread.persona_id, now) for message in messages],
        )
        answer = await self._link.run(APPEND, self._keys.thread(scope, thread), (request.pack(),))
        if answer == b"absent":
            raise SessionNotFound(thread.session_id)
        if answer == b"expired":
            raise SessionExpired(thread.session_id)
        fresh, stored, newest, extend, incarnation = decode_appended(answer)
        if extend:
            await self._retention.extend(scope, thread.session_id, lambda: self._known(scope, thread.session_id))
        return Appended(stored, len(messages) - fresh, newest, incarnation)

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
        keys, caller = self._keys.thread(scope, thread), self._caller(scope, thread.incarnation)
        words = (limit, "" if before is None else before, int(whole_turns))
        return decode_all(await self._link.run(LATEST, keys, (*caller, *words)))

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        check_range("limit", limit, 1, MAX_READ)
        check_read(scope, thread, start=start)
        return decode_all(await self._range(scope, thread, min(max(start, 1), MAX_SEQ) - 1, limit))

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
        """See :meth:`wenmai.stores.contracts.Logs.complete`; without ``metadata`` the message keeps what it has."""
        check_owner(scope, thread.session_id, thread.persona_id)
        check_completion(content, tokens, metadata)
        if not 1 <= message.seq <= MAX_SEQ:
            return None
        while True:
            raws = split(await self._range(scope, thread, message.seq - 1, 1))
            found = decode(raws[0]) if raws else None
            if found is None or found.id != message.id or found.completed:
                return None
            kept = found.metadata if metadata is None else dict(metadata)
            updated = replace(found, content=content, completed=completed, tokens=tokens, metadata=kept)
            after = encode(updated)
            caller = self._caller(scope, thread.incarnation)
            words = (*caller, message.seq - 1, found.turn_id, int(completed), raws[0], after)
            if await self._link.run(COMPLETE, self._keys.thread(scope, thread), words):
                return decode(after)

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""
        check_owner(scope, session_id)
        born, persona_ids = await self._persona_ids(scope, session_id)
        if incarnation not in (None, born):
            return []
        fields = ("_born", "_count", "_turn", "_first_at", "_last_at")
        keys = [self._keys.thread(scope, ThreadKey(session_id, persona_id)).numbers for persona_id in persona_ids]
        found = await self._link.commands([("HMGET", key, *fields) for key in keys])
        return [
            ThreadInfo(persona_id, int(count), int(turns), _moment(first_at), _moment(last_at))
            for persona_id, (of, count, turns, first_at, last_at) in zip(persona_ids, found, strict=True)
            if of is not None and of.decode() == born
        ]

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = MAX_EXAMINED
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        check_range("limit", limit, 1, MAX_EXAMINED)
        return await enumerate_threads(self._link, self._keys, self._clock(), since, cursor, limit)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        check_owner(scope, session_id, persona_id or "")
        if persona_id is None:
            born, persona_ids = await self._persona_ids(scope, session_id)
            if incarnation not in (None, born):
                return 0
            incarnation = born
        else:
            persona_ids = [persona_id]
        document, registry, *keys = self._keys.session(scope, session_id, persona_ids)
        words: list[Word] = [*self._caller(scope, incarnation), *persona_ids]
        erased: int = await self._link.run(ERASE, (document, registry, *keys), words)
        return erased

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        check_range("last_seq", last_seq, 0, MAX_SEQ)
        words = (*self._caller(scope, thread.incarnation), last_seq, thread.persona_id, secrets.token_hex(4))
        removed: int = await self._link.run(TRUNCATE, self._keys.thread(scope, thread), words)
        return removed

    async def _known(self, scope: Scope, session_id: str) -> list[str]:
        return (await self._persona_ids(scope, session_id))[1]

    async def _persona_ids(self, scope: Scope, session_id: str) -> tuple[str, list[str]]:
        """The session's incarnation, empty if it is absent, and its personas in order of creation."""
        keys = self._keys.session(scope, session_id, ())
        born, *persona_ids = await self._link.run(THREADS, keys, self._caller(scope, None))
        return born.decode(), [persona_id.decode() for persona_id in persona_ids]

    async def _range(self, scope: Scope, thread: ThreadKey, first: int, count: int) -> bytes:
        words = (*self._caller(scope, thread.incarnation), first, first + count - 1)
        answer: bytes = await self._link.run(READ, self._keys.thread(scope, thread), words)
        return answer

    def _caller(self, scope: Scope, incarnation: str | None) -> tuple[str, int, str]:
        return scope.user_id, to_micros(self._clock()), _incarnation_word(incarnation)


def _incarnation_word(incarnation: str | None) -> str:
    return ANY if incarnation is None else incarnation


def _moment(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode())
