"""One turn at a time per thread, in this process and over all processes of a store (section 3).

Within a process turns queue in the order in which they came. Between processes a lease in the store decides: its
holder answers, renews it while answering, and ends it. A process that dies with it blocks the thread for at most
``LEASE``, whatever its clock said: a lease that is not renewed for so long is taken over.

The lease's version is its fencing number: it counts up with every holder and renewal, and a holder changes the
lease only at the number that it wrote itself. One who slept through its lease and wakes up disturbs no successor.
The lease is bound to the session's incarnation and lives as long, so its numbers never begin again.
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
from wenmai.memory.finishing import to_the_end
from wenmai.memory.patience import Patience
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents
from wenmai.stores.records import Session, TurnLease

_log = logging.getLogger(__name__)

OnConflict = Literal["wait", "reject"]

LEASE = timedelta(seconds=5)
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.03
"""How often a turn asks again for a lease that another process holds."""

WAIT_SECONDS = 300.0
"""How long a turn waits for its thread before it is refused."""

ENDED = from_micros(0)
"""The end of a lease that was given back: past for every clock, however wrong it goes."""


def lease_key(thread: ThreadKey) -> str:
    """The key of the thread's lease; incarnations are unique, and neither they nor ids hold a slash."""
    return f"{thread.incarnation}/{thread.npc_id}"


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

        Args:
            scope: the owner of the session.
            thread: of the session that has the id now if it names no incarnation.
            on_conflict: ``wait`` for at most ``WAIT_SECONDS``, or ``reject`` at once.

        Raises:
            ThreadBusy: another turn holds it.
            SessionNotFound: the session is gone.
        """
        async with AsyncExitStack() as held:
            thread = await self._pinned(scope, thread)
            try:
                async with asyncio.timeout(WAIT_SECONDS):
                    await held.enter_async_context(self._queued(scope, thread, on_conflict))
                    lease = _Lease(self._documents, self._clock, scope, thread)
                    held.push_async_callback(lease.end)
                    await lease.acquire(on_conflict)
            except TimeoutError:
                raise ThreadBusy(thread.session_id, thread.npc_id) from None
            renewal = asyncio.create_task(lease.renew_until_lost())
            try:
                yield
            finally:
                renewal.cancel()
                await asyncio.wait([renewal])

    async def _pinned(self, scope: Scope, thread: ThreadKey) -> ThreadKey:
        if thread.incarnation is not None:
            return thread
        stored = await self._documents.get(scope, Session, thread.session_id)
        if stored is None:
            raise SessionNotFound(thread.session_id)
        return thread._replace(incarnation=stored.record.incarnation)

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
    """The store's record of who may answer in a thread."""

    def __init__(self, documents: Documents, clock: Clock, scope: Scope, thread: ThreadKey) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._thread = thread
        self._key = lease_key(thread)
        self._holder = secrets.token_hex(8)
        self._version = 0
        self._patience = Patience(clock, LEASE)

    async def acquire(self, on_conflict: OnConflict) -> None:
        while not await self._try_to_acquire():
            if on_conflict == "reject":
                raise ThreadBusy(self._thread.session_id, self._thread.npc_id)
            await asyncio.sleep(RETRY_SECONDS)

    async def _try_to_acquire(self) -> bool:
        found = await self._documents.get(self._scope, TurnLease, self._key)
        mine = found is not None and found.record.holder == self._holder
        if found is not None and not mine and self._patience.is_held(found, found.record.expires_at):
            return False
        try:
            await self._put(self._clock() + LEASE, expected=found.version if found else 0)
        except VersionConflict:
            return False
        return True

    async def renew_until_lost(self) -> None:
        """Renew until cancelled, or until another turn has taken over."""
        while self._version:
            await asyncio.sleep(RENEW_SECONDS)
            await self._change(self._clock() + LEASE)

    async def end(self) -> None:
        """Let the next turn in at once."""
        if self._version:
            await self._change(ENDED)

    async def _change(self, end: datetime) -> None:
        """Write another end, at the version that is ours; whatever fails, the turn goes on."""
        try:
            try:
                await self._put(end, expected=self._version)
            except VersionConflict:
                # Either another turn has taken over, or the answer to our own last change was lost.
                found = await self._documents.get(self._scope, TurnLease, self._key)
                if found is None or found.record.holder != self._holder:
                    raise
                await self._put(end, expected=found.version)
        except (VersionConflict, SessionNotFound):
            self._version = 0
            _log.warning("the lease of %s was lost while its turn ran", self._key)
        except Exception as problem:  # noqa: BLE001 — the renewal of a running turn must survive what a store raises
            _log.warning("the lease of %s could not be changed: %r", self._key, problem)

    async def _put(self, end: datetime, *, expected: int) -> None:
        """Write the lease; a turn that is cancelled meanwhile still learns that it holds it, and ends it."""
        await to_the_end(self._put_and_note(end, expected))

    async def _put_and_note(self, end: datetime, expected: int) -> None:
        lease = TurnLease(
            thread=self._key,
            session_id=self._thread.session_id,
            incarnation=self._thread.incarnation or "",
            holder=self._holder,
            expires_at=end,
        )
        stored = await self._documents.put(self._scope, lease, expected=expected)
        self._version = stored.version
