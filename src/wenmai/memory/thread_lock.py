"""Thread lock: one turn at a time per thread, within this process and across all processes of a store.

Within a process, turns queue first in, first out. Across processes a lease in the store decides: its holder answers,
renews it meanwhile, and releases it. A process that dies holding it blocks the thread for at most ``LEASE``, whatever
its clock said: a lease that is not renewed for so long is taken over.

The lease's version is its fencing token: it increases with every holder and renewal, and a holder changes the lease
only at the version that it wrote itself, so a holder that slept through its lease cannot disturb its successor.
The lease is bound to the session's incarnation and is deleted with it, so its versions never restart.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Literal

from wenmai.clock import Clock, from_micros
from wenmai.errors import SessionNotFound, ThreadBusy, VersionConflict
from wenmai.memory.lease_watch import LeaseWatch
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents
from wenmai.stores.records import Session, TurnLease

_log = logging.getLogger(__name__)

OnConflict = Literal["wait", "reject"]

LEASE = timedelta(seconds=5)
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.03
"""Polling interval while another process holds the lease."""

WAIT_SECONDS = 300.0
"""Timeout for taking the thread; after it the turn is refused."""

EXPIRED = from_micros(0)
"""Expiry of a released lease: in the past for every clock, however wrong."""


def lease_key(thread: ThreadKey) -> str:
    """The key of the thread's lease; incarnations are unique, and neither they nor ids contain a slash."""
    return f"{thread.incarnation}/{thread.npc_id}"


class _Queue:
    """Turns of this process that wait for a thread; ``asyncio.Lock`` is first in, first out."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.waiters = 0


class ThreadLock:
    """Mutual exclusion of the turns of a thread."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
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
                    lease = _Lease(self._documents, self._clock, scope, thread)
                    stack.push_async_callback(lease.release)
                    await lease.acquire(on_conflict)
            except TimeoutError:
                raise ThreadBusy(thread.session_id, thread.npc_id) from None
            renewal = asyncio.create_task(lease.renew_until_lost())
            try:
                yield
            finally:
                renewal.cancel()
                await asyncio.wait([renewal])

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
            raise ThreadBusy(thread.session_id, thread.npc_id)
        queue.waiters += 1
        try:
            async with queue.lock:
                yield
        finally:
            queue.waiters -= 1
            if not queue.waiters:
                del self._queues[scope, thread]


class _Lease:
    """The thread's lease in the store."""

    def __init__(self, documents: Documents, clock: Clock, scope: Scope, thread: ThreadKey) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._thread = thread
        self._key = lease_key(thread)
        self._holder = secrets.token_hex(8)
        self._version = 0
        self._watch = LeaseWatch(clock, LEASE)

    async def acquire(self, on_conflict: OnConflict) -> None:
        while not await self._try_to_acquire():
            if on_conflict == "reject":
                raise ThreadBusy(self._thread.session_id, self._thread.npc_id)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_acquire(self) -> bool:
        found = await self._documents.get(self._scope, TurnLease, self._key)
        mine = found is not None and found.record.holder == self._holder
        if found is not None and not mine and self._watch.is_held(found, found.record.expires_at):
            return False
        try:
            await self._put(self._clock() + LEASE, expected=found.version if found else 0)
        except VersionConflict:
            return False
        return True

    async def renew_until_lost(self) -> None:
        """Renew until cancelled, or until another turn has taken the lease over."""
        while self._version:
            await asyncio.sleep(RENEW_SECONDS)
            await self._change(self._clock() + LEASE)

    async def release(self) -> None:
        """Release the lease, so that the next turn starts at once."""
        if self._version:
            await self._change(EXPIRED)

    async def _change(self, expires_at: datetime) -> None:
        """Write a new expiry at our own version; if that fails, the turn continues."""
        try:
            try:
                await self._put(expires_at, expected=self._version)
            except VersionConflict:
                # Either another turn has taken over, or the reply to our own last write was lost.
                found = await self._documents.get(self._scope, TurnLease, self._key)
                if found is None or found.record.holder != self._holder:
                    raise
                await self._put(expires_at, expected=found.version)
        except (VersionConflict, SessionNotFound):
            self._version = 0
            _log.warning("the lease of %s was lost while its turn ran", self._key)
        except Exception as problem:  # noqa: BLE001 — a renewal must survive any store error
            _log.warning("the lease of %s could not be changed: %r", self._key, problem)

    async def _put(self, expires_at: datetime, *, expected: int) -> None:
        """Write the lease; a turn cancelled meanwhile still learns that it holds it, and releases it."""
        await run_to_completion(self._put_and_record(expires_at, expected))

    async def _put_and_record(self, expires_at: datetime, expected: int) -> None:
        lease = TurnLease(
            thread=self._key,
            session_id=self._thread.session_id,
            incarnation=self._thread.incarnation or "",
            holder=self._holder,
            expires_at=expires_at,
        )
        stored = await self._documents.put(self._scope, lease, expected=expected)
        self._version = stored.version
