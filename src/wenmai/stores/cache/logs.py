"""The logs contract with a cache: the newest messages and the list of threads are cached."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache.entries import TAIL_MESSAGES, CachedSession, CachedValue, Tail
from wenmai.stores.cache.freshness import MomentClock
from wenmai.stores.cache.read_through import IsFresh, ReadThrough
from wenmai.stores.cache.write_through import WriteThrough
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.structs import ActiveThreads, Appended, ThreadInfo, ThreadPart
from wenmai.stores.validation import check_range

MAX_READ = 10_000
AHEAD = 16
"""Messages fetched beyond those requested, so that an entry can still answer when some are left out."""


class CachedLogs:
    """See :class:`wenmai.stores.contracts.Logs`."""

    def __init__(self, durable: Logs, read_through: ReadThrough, write_through: WriteThrough, now: MomentClock) -> None:
        self._durable = durable
        self._read_through = read_through
        self._write_through = write_through
        self._now = now

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
        appended, load = await self._write_through.store(
            scope, thread.session_id, self._durable.append(scope, thread, messages, tail=tail, slide=slide)
        )
        await self._write_through.append(scope, thread, appended, load, slide=slide)
        return appended

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
        if before is not None:
            return await self._durable.latest(scope, thread, limit, before=before, whole_turns=whole_turns)

        def answer(entry: CachedSession, is_fresh: IsFresh) -> tuple[list[Message]] | None:
            tail = entry.tails.get(thread.persona_id)
            if tail is None or not is_fresh(tail.validated_at):
                return None
            newest = tail.newest(limit, whole_turns=whole_turns)
            return None if newest is None else (newest,)

        async def fetch(entry: CachedSession) -> list[Message]:
            began = self._now()
            if limit > TAIL_MESSAGES:
                return await self._durable.latest(scope, thread, limit, whole_turns=whole_turns)
            messages = await self._durable.latest(scope, thread, min(limit + AHEAD, TAIL_MESSAGES))
            if not messages:
                return []
            newest = None
            try:
                tail = Tail(messages, began)
                newest = tail.newest(limit, whole_turns=whole_turns)
                entry.tails[thread.persona_id] = tail
            except Exception as problem:  # noqa: BLE001 — the durable store answers, and the failure is logged
                self._read_through.failures.note("built from messages", problem)
            if newest is None:
                return await self._durable.latest(scope, thread, limit, whole_turns=whole_turns)
            return newest

        return await self._read_through.read(scope, thread, answer, fetch)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.contracts.Logs.read`."""
        return await self._durable.read(scope, thread, start=start, limit=limit)

    async def read_parts(self, scope: Scope, parts: Sequence[ThreadPart]) -> list[list[Message]]:
        """See :meth:`wenmai.stores.contracts.Logs.read_parts`."""
        return await self._durable.read_parts(scope, parts)

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
        completing = self._durable.complete(
            scope, thread, message, content=content, completed=completed, tokens=tokens, metadata=metadata
        )
        stored, load = await self._write_through.store(scope, thread.session_id, completing)
        if stored is not None:
            await self._write_through.complete(scope, thread, stored, load)
        return stored

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.contracts.Logs.threads`."""

        def answer(entry: CachedSession, is_fresh: IsFresh) -> tuple[list[ThreadInfo]] | None:
            cached = entry.threads
            return (list(cached.value),) if cached is not None and is_fresh(cached.validated_at) else None

        async def fetch(entry: CachedSession) -> list[ThreadInfo]:
            began = self._now()
            threads = await self._durable.threads(scope, session_id, incarnation=incarnation)
            entry.threads = CachedValue(threads, began)
            return list(threads)

        return await self._read_through.read(scope, ThreadKey(session_id, "", incarnation), answer, fetch)

    async def active_threads(
        self, *, since: datetime | None = None, cursor: str | None = None, limit: int = 500
    ) -> ActiveThreads:
        """See :meth:`wenmai.stores.contracts.Logs.active_threads`."""
        return await self._durable.active_threads(since=since, cursor=cursor, limit=limit)

    async def erase(
        self, scope: Scope, session_id: str, persona_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.erase`."""
        return await self._remove(
            scope,
            session_id,
            persona_id,
            lambda: self._durable.erase(scope, session_id, persona_id, incarnation=incarnation),
        )

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.contracts.Logs.truncate`."""
        return await self._remove(
            scope, thread.session_id, thread.persona_id, lambda: self._durable.truncate(scope, thread, last_seq)
        )

    async def _remove(
        self, scope: Scope, session_id: str, persona_id: str | None, remove: Callable[[], Coroutine[Any, Any, int]]
    ) -> int:
        """Remove messages and drop the session's entries; returns how many messages were removed."""
        threads = await self._durable.threads(scope, session_id)
        persona_ids = [*([persona_id] if persona_id else []), *(info.persona_id for info in threads)]
        removed = await self._write_through.remove(scope, session_id, persona_ids, remove())
        await self._write_through.drop(scope, session_id, persona_ids)
        return removed
