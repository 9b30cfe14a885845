"""One turn at a time per thread, in this process and over all processes of a store (section 3).

Within a process turns queue in the order in which they came. Between processes a lease in the store decides: who
holds it answers, renews it while answering, and gives it back. A process that dies with it blocks the thread for
at most ``LEASE``.

The lease's version is its fencing number: it counts up with every holder and renewal, and a holder changes the
lease only at the number that it wrote itself. One who slept through its lease and wakes up disturbs no successor.
"""

import asyncio
import hashlib
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal

from wenmai.clock import Clock, from_micros
from wenmai.errors import StoreError, ThreadBusy, VersionConflict
from wenmai.memory.finishing import to_the_end
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents
from wenmai.stores.records import TurnLease

_log = logging.getLogger(__name__)

OnConflict = Literal["wait", "reject"]

LEASE = timedelta(seconds=5)
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.03
"""How often a turn asks again for a lease that another process holds."""

KEPT = timedelta(minutes=10)
"""How long a lease that nobody holds is remembered, so that its version goes on counting."""

NOBODY = from_micros(0)
"""The end of a lease that was given back: past for every clock, however wrong it goes."""


def lease_key(scope: Scope, thread: ThreadKey) -> str:
    """The key of the thread's lease.

    Sessions are a user's own, so the key is too: what a user leaves behind never stands in a stranger's way.
    """
    # An id holds no slash, so two threads never share a key.
    return f"{thread.session_id}/{thread.npc_id}/{hashlib.sha256(scope.user_id.encode()).hexdigest()[:16]}"


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
        self._key = lease_key(scope, thread)
        self._holder = secrets.token_hex(8)
        self._version = 0

    async def acquire(self, on_conflict: OnConflict) -> None:
        while not await self._try_to_acquire():
            if on_conflict == "reject":
                raise ThreadBusy(self._thread.session_id, self._thread.npc_id)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_acquire(self) -> bool:
        found = await self._documents.get(self._scope, TurnLease, self._key)
        if found is not None and found.record.expires_at > self._clock():
            return False
        try:
            await self._put(self._clock() + LEASE, expected=found.version if found else 0)
        except VersionConflict:
            return False
        return True

    async def renew_for_ever(self) -> None:
        """Renew until cancelled, or until another turn has taken over."""
        while self._version:
            await asyncio.sleep(RENEW_SECONDS)
            await self._change(self._clock() + LEASE)

    async def release(self) -> None:
        if self._version:
            await self._change(NOBODY)

    async def _change(self, end: datetime) -> None:
        try:
            await self._put(end, expected=self._version)
        except VersionConflict:
            self._version = 0
            _log.warning("the lease of %s was lost while its turn ran", self._key)
        except StoreError as problem:
            _log.warning("the lease of %s could not be changed: %s", self._key, problem)

    async def _put(self, end: datetime, *, expected: int) -> None:
        """Write the lease; a turn that is cancelled meanwhile still learns that it holds it, and gives it back."""
        await to_the_end(self._put_and_note(end, expected))

    async def _put_and_note(self, end: datetime, expected: int) -> None:
        lease = TurnLease(thread=self._key, holder=self._holder, expires_at=end)
        remembered = self._clock() + LEASE + KEPT
        stored = await self._documents.put(self._scope, lease, expected=expected, keep_until=remembered)
        self._version = stored.version
