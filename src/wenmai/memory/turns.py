"""One turn at a time per thread, in this process and over all processes of a store (section 3).

Within a process turns queue in the order in which they came. Between processes a lease in the store decides: who
holds it answers, renews it while answering, and gives it back. A process that dies with it blocks the thread for
at most ``LEASE``.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Literal

from wenmai.clock import Clock
from wenmai.errors import StoreError, ThreadBusy, VersionConflict
from wenmai.memory.finishing import to_the_end
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents
from wenmai.stores.records import TurnLease

_log = logging.getLogger(__name__)

OnConflict = Literal["wait", "reject"]

LEASE = timedelta(seconds=15)
RENEW_SECONDS = 5.0
RETRY_SECONDS = 0.03
"""How often a turn asks again for a lease that another process holds."""


class _Queue:
    """Who waits for a thread in this process; ``asyncio.Lock`` lets them in in the order of their coming."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.users = 0


class TurnGate:
    """Lets one turn of a thread in at a time."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._queues: dict[tuple[Scope, ThreadKey], _Queue] = {}

    @asynccontextmanager
    async def turn(self, scope: Scope, thread: ThreadKey, on_conflict: OnConflict = "wait") -> AsyncIterator[None]:
        """Hold the thread for as long as the context lasts.

        Raises:
            ThreadBusy: another turn holds it and ``on_conflict`` is ``reject``.
        """
        async with self._queued(scope, thread, on_conflict):
            lease = _Lease(self._documents, self._clock, scope, thread)
            try:
                await lease.acquire(on_conflict)
                renewal = asyncio.create_task(lease.renew_for_ever())
                try:
                    yield
                finally:
                    renewal.cancel()
                    await asyncio.wait([renewal])
            finally:
                await lease.release()

    @asynccontextmanager
    async def _queued(self, scope: Scope, thread: ThreadKey, on_conflict: OnConflict) -> AsyncIterator[None]:
        queue = self._queues.setdefault((scope, thread), _Queue())
        if queue.users and on_conflict == "reject":
            raise ThreadBusy(thread.session_id, thread.npc_id)
        queue.users += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.users -= 1
            if not queue.users:
                del self._queues[scope, thread]


class _Lease:
    """The store's word on who may answer in a thread."""

    def __init__(self, documents: Documents, clock: Clock, scope: Scope, thread: ThreadKey) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._thread = thread
        self._holder = secrets.token_hex(8)
        self._version = 0

    async def acquire(self, on_conflict: OnConflict) -> None:
        while not await self._try_to_acquire():
            if on_conflict == "reject":
                raise ThreadBusy(self._thread.session_id, self._thread.npc_id)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_acquire(self) -> bool:
        try:
            await self._put(expected=0)
        except VersionConflict:
            return False
        return True

    async def renew_for_ever(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self._put(expected=self._version)
            except (VersionConflict, StoreError) as problem:
                _log.warning("the lease of %s could not be renewed: %s", self._key, problem)

    async def release(self) -> None:
        if not self._version:
            return
        try:
            await self._documents.delete(self._scope, TurnLease, self._key, expected=self._version)
        except (VersionConflict, StoreError) as problem:
            _log.warning("the lease of %s was not given back: %s", self._key, problem)

    async def _put(self, *, expected: int) -> None:
        """Write the lease; a turn that is cancelled meanwhile still learns that it holds it, and gives it back."""
        await to_the_end(self._put_and_note(expected))

    async def _put_and_note(self, expected: int) -> None:
        end = self._clock() + LEASE
        lease = TurnLease(thread=self._key, holder=self._holder, expires_at=end)
        # A lease that ran out is absent, so that the next turn takes the thread as if it were free.
        stored = await self._documents.put(self._scope, lease, expected=expected, keep_until=end)
        self._version = stored.version

    @property
    def _key(self) -> str:
        # An id holds no slash, so two threads never share a key.
        return f"{self._thread.session_id}/{self._thread.npc_id}"
