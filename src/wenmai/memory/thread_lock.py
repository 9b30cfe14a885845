"""Thread lock: one turn at a time per thread, within this process and across all processes of a store.

Within a process, turns queue first in, first out. Across processes a lease decides (:mod:`wenmai.stores.lease`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Literal

from wenmai.clock import Clock
from wenmai.errors import SessionNotFound, ThreadBusy
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents
from wenmai.stores.lease import Leases, LeaseTaken
from wenmai.stores.records import Session

OnConflict = Literal["wait", "reject"]

TURN = "turn"
"""The work that the lease names."""

WAIT_SECONDS = 300.0
"""Timeout for taking the thread; after it the turn is refused."""


class _Queue:
    """Turns of this process that wait for a thread; ``asyncio.Lock`` is first in, first out."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiters = 0


class ThreadLock:
    """Mutual exclusion of the turns of a thread."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._leases = Leases(documents, clock)
        self._queues: dict[tuple[Scope, ThreadKey], _Queue] = {}

    @asynccontextmanager
    async def hold(self, scope: Scope, thread: ThreadKey, on_conflict: OnConflict = "wait") -> AsyncIterator[None]:
        """Hold the thread for as long as the context lasts.

        Args:
            scope: the owner of the session.
            thread: without an incarnation, that of the session that has the id now.
            on_conflict: ``wait`` for at most ``WAIT_SECONDS``, or ``reject`` at once.

        Raises:
            ThreadBusy: another turn holds it.
            SessionNotFound: the session was deleted.
        """
        async with AsyncExitStack() as stack:
            thread = await self._with_incarnation(scope, thread)
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await stack.enter_async_context(self._queued(scope, thread, on_conflict))
                    lease = self._leases.hold(scope, TURN, thread, wait=on_conflict == "wait")
                    await stack.enter_async_context(lease)
            except (TimeoutError, LeaseTaken):
                raise ThreadBusy(thread.session_id, thread.persona_id) from None
            yield

    async def _with_incarnation(self, scope: Scope, thread: ThreadKey) -> ThreadKey:
        if thread.incarnation is not None:
            return thread
        stored = await self._documents.get(scope, Session, thread.session_id)
        if stored is None:
            raise SessionNotFound(thread.session_id)
        return thread._replace(incarnation=stored.record.incarnation)

    @asynccontextmanager
    async def _queued(self, scope: Scope, thread: ThreadKey, on_conflict: OnConflict) -> AsyncIterator[None]:
        queue = self._queues.setdefault((scope, thread), _Queue())
        if queue.waiters and on_conflict == "reject":
            raise ThreadBusy(thread.session_id, thread.persona_id)
        queue.waiters += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.waiters -= 1
            if not queue.waiters:
                del self._queues[scope, thread]
