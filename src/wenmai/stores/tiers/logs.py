"""The logs contract over the tiers: the newest messages and the list of threads are copied."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Appended, Logs, ThreadInfo
from wenmai.stores.fields import check_range
from wenmai.stores.records import Message, NewMessage
from wenmai.stores.tiers.copies import TAIL_MESSAGES, Piece, SessionCopy, Tail
from wenmai.stores.tiers.reading import Believed, Reading
from wenmai.stores.tiers.trust import Moments
from wenmai.stores.tiers.writing import Writing

MAX_READ = 10_000
AHEAD = 16
"""Messages that are read beyond those asked for, so that a copy still answers when some are left out."""


class TieredLogs:
    """See :class:`wenmai.stores.base.Logs`."""

    def __init__(self, durable: Logs, reading: Reading, writing: Writing, now: Moments) -> None:
        self._durable = durable
        self._reading = reading
        self._writing = writing
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
        """See :meth:`wenmai.stores.base.Logs.append`."""
        appended, load = await self._writing.storing(
            scope, thread.session_id, self._durable.append(scope, thread, messages, tail=tail, slide=slide)
        )
        await self._writing.append(scope, thread, appended, load, slide=slide)
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
        """See :meth:`wenmai.stores.base.Logs.latest`."""
        check_range("limit", limit, 1, MAX_READ)
        if before is not None:
            return await self._durable.latest(scope, thread, limit, before=before, whole_turns=whole_turns)

        def answer(copy: SessionCopy, believed: Believed) -> tuple[list[Message]] | None:
            tail = copy.tails.get(thread.npc_id)
            if tail is None or not believed(tail.checked_at):
                return None
            newest = tail.newest(limit, whole_turns=whole_turns)
            return None if newest is None else (newest,)

        async def ask(fresh: SessionCopy) -> list[Message]:
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
                fresh.tails[thread.npc_id] = tail
            except Exception as problem:  # noqa: BLE001 — the durable store answers, and the failure is logged
                self._reading.failures.note("made of messages", problem)
            if newest is None:
                return await self._durable.latest(scope, thread, limit, whole_turns=whole_turns)
            return newest

        return await self._reading.read(scope, thread, answer, ask)

    async def read(self, scope: Scope, thread: ThreadKey, *, start: int = 1, limit: int = 500) -> list[Message]:
        """See :meth:`wenmai.stores.base.Logs.read`."""
        return await self._durable.read(scope, thread, start=start, limit=limit)

    async def settle(
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
        """See :meth:`wenmai.stores.base.Logs.settle`."""
        filling = self._durable.settle(
            scope, thread, message, content=content, completed=completed, tokens=tokens, metadata=metadata
        )
        settled, load = await self._writing.storing(scope, thread.session_id, filling)
        if settled is not None:
            await self._writing.settle(scope, thread, settled, load)
        return settled

    async def threads(self, scope: Scope, session_id: str, *, incarnation: str | None = None) -> list[ThreadInfo]:
        """See :meth:`wenmai.stores.base.Logs.threads`."""

        def answer(copy: SessionCopy, believed: Believed) -> tuple[list[ThreadInfo]] | None:
            piece = copy.threads
            return (list(piece.value),) if piece is not None and believed(piece.checked_at) else None

        async def ask(fresh: SessionCopy) -> list[ThreadInfo]:
            began = self._now()
            threads = await self._durable.threads(scope, session_id, incarnation=incarnation)
            fresh.threads = Piece(threads, began)
            return list(threads)

        return await self._reading.read(scope, ThreadKey(session_id, "", incarnation), answer, ask)

    async def erase(
        self, scope: Scope, session_id: str, npc_id: str | None = None, *, incarnation: str | None = None
    ) -> int:
        """See :meth:`wenmai.stores.base.Logs.erase`."""
        return await self._removed(
            scope,
            session_id,
            npc_id,
            lambda: self._durable.erase(scope, session_id, npc_id, incarnation=incarnation),
        )

    async def truncate(self, scope: Scope, thread: ThreadKey, last_seq: int) -> int:
        """See :meth:`wenmai.stores.base.Logs.truncate`."""
        return await self._removed(
            scope, thread.session_id, thread.npc_id, lambda: self._durable.truncate(scope, thread, last_seq)
        )

    async def _removed(
        self, scope: Scope, session_id: str, npc_id: str | None, remove: Callable[[], Coroutine[Any, Any, int]]
    ) -> int:
        """How many messages were removed; nothing that is copied of the session stays."""
        threads = await self._durable.threads(scope, session_id)
        npc_ids = [*([npc_id] if npc_id else []), *(info.npc_id for info in threads)]
        removed = await self._writing.removing(scope, session_id, npc_ids, remove())
        await self._writing.drop(scope, session_id, npc_ids)
        return removed
