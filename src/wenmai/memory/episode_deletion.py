"""Removes episodes of threads and sessions that are deleted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from wenmai.memory.derived import DerivedMemory
from wenmai.memory.episodes import EpisodeIndex
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Logs


class EpisodeDeletion:
    """Removes the entries before the messages, since nothing finds them once those are gone, and again afterwards.

    Background work may have added some meanwhile; what it adds later, it removes itself (:meth:`EpisodeIndex.trim`).
    A deletion that fails, or a process that is killed, leaves threads that are derived again.
    """

    def __init__(self, index: EpisodeIndex | None, derived: DerivedMemory, logs: Logs) -> None:
        self._index = index
        self._derived = derived
        self._logs = logs

    @asynccontextmanager
    async def around(self, scope: Scope, thread: ThreadKey, last_seq: int = 0) -> AsyncIterator[None]:
        """Entered while the messages of a thread after ``last_seq`` are deleted, or a session.

        Args:
            scope: the owner.
            thread: with its incarnation; an empty persona means all threads of the session.
            last_seq: the last message that is kept.
        """
        if self._index is None:
            yield
            return
        threads = [thread]
        if not thread.persona_id:
            found = await self._logs.threads(scope, thread.session_id, incarnation=thread.incarnation)
            threads = [thread._replace(persona_id=each.persona_id) for each in found]
        await self._reset(scope, threads)
        await self._index.remove(scope, thread, last_seq)
        # Another process may have derived the thread between these two, whose entries are gone now.
        await self._reset(scope, threads)
        yield
        if thread.persona_id:
            # New messages may have the numbers of those that were removed.
            newest = await self._logs.latest(scope, thread, 1)
            last_seq = max(last_seq, newest[-1].seq) if newest else last_seq
        await self._index.remove(scope, thread, last_seq)

    async def _reset(self, scope: Scope, threads: Sequence[ThreadKey]) -> None:
        for each in threads:
            await self._derived.reset(scope, each)
