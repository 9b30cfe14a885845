"""Leases: one process at a time does a named piece of work, across all processes of a store.

Its holder renews a lease while it works, and releases it. A process that dies holding it blocks the others for at most
``LEASE``, whatever its clock said: a lease that is not renewed for so long is taken over.

The lease's version is its fencing token: it increases with every holder and renewal, and a holder changes the lease
only at the version that it wrote itself, so a holder that slept through its lease cannot disturb its successor. A lease
that belongs to a session is deleted with it, and its name has the incarnation, so its versions never restart.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta

from wenmai.clock import Clock, from_micros
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.resilience.shielded import run_to_completion
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents
from wenmai.stores.lease_watch import LeaseWatch
from wenmai.stores.records import Lease

_log = logging.getLogger(__name__)

LEASE = timedelta(seconds=5)
RENEW_SECONDS = 1.0
RETRY_SECONDS = 0.03
"""Polling interval while another process holds the lease."""

MAX_WATCHED = 1_000
"""Leases of other holders that are watched between attempts to take them."""

MAX_RELEASED = 1_000
"""Leases that this process held last, whose versions are kept."""

EXPIRED = from_micros(0)
"""Expiry of a released lease: in the past for every clock, also a wrong one."""


class LeaseTaken(Exception):
    """Another holder has the lease."""


def lease_name(work: str, thread: ThreadKey) -> str:
    """The name of a lease on a thread; incarnations are unique, and neither they nor persona ids contain a slash."""
    return f"{work}/{thread.incarnation}/{thread.persona_id}"


class Leases:
    """Takes leases in a store."""

    def __init__(self, documents: Documents, clock: Clock) -> None:
        self._documents = documents
        self._clock = clock
        self._watches: dict[tuple[Scope, str], LeaseWatch] = {}
        self._released: dict[tuple[Scope, str], int] = {}
        """Versions of the leases that this process released; one that is still in this version needs no read."""

    @asynccontextmanager
    async def hold(self, scope: Scope, work: str, thread: ThreadKey, *, wait: bool) -> AsyncIterator[None]:
        """Hold the lease on this work of the thread for as long as the context lasts.

        Args:
            scope: the owner of the session.
            work: names the work; leases on different works are independent.
            thread: with its incarnation; the lease is deleted with the session.
            wait: until the lease is free; otherwise a lease that is held is an error.

        Raises:
            LeaseTaken: another holder has it, and ``wait`` is False.
            SessionNotFound: the session was deleted.
        """
        # Kept between attempts that do not wait, so that a dead holder's lease expires for them too.
        watched = scope, lease_name(work, thread)
        watch = self._watches.get(watched) or LeaseWatch(self._clock, LEASE)
        released = self._released.pop(watched, 0)
        held = HeldLease(self._documents, self._clock, scope, work, thread, watch, released=released)
        try:
            try:
                await held.acquire(wait=wait)
            except LeaseTaken:
                self._watches[watched] = watch
                if len(self._watches) > MAX_WATCHED:
                    del self._watches[next(iter(self._watches))]
                raise
            self._watches.pop(watched, None)
            renewals: list[asyncio.Task[None]] = []
            # Most work ends before the first renewal, so that no task is started for it.
            first = asyncio.get_running_loop().call_later(
                RENEW_SECONDS, lambda: renewals.append(asyncio.create_task(held.renew_until_lost()))
            )
            try:
                yield
            finally:
                first.cancel()
                for renewal in renewals:
                    renewal.cancel()
                    await asyncio.wait([renewal])
        finally:
            await held.release()
            if held.released:
                self._released[watched] = held.released
                if len(self._released) > MAX_RELEASED:
                    del self._released[next(iter(self._released))]


class HeldLease:
    """One holder's lease.

    Attributes:
        released: the version at which the lease was released last; 0 if it was not.
    """

    def __init__(
        self,
        documents: Documents,
        clock: Clock,
        scope: Scope,
        work: str,
        thread: ThreadKey,
        watch: LeaseWatch | None = None,
        *,
        released: int = 0,
    ) -> None:
        self._documents = documents
        self._clock = clock
        self._scope = scope
        self._thread = thread
        self._name = lease_name(work, thread)
        self._holder = secrets.token_hex(8)
        self._version = 0
        self._watch = watch or LeaseWatch(clock, LEASE)
        self.released: int = released

    async def acquire(self, *, wait: bool) -> None:
        """Take the lease.

        Raises:
            LeaseTaken: see :meth:`Leases.hold`.
            SessionNotFound: the session was deleted.
        """
        while not await self._try_to_acquire():
            if not wait:
                raise LeaseTaken(self._name)
            await asyncio.sleep(RETRY_SECONDS)

    async def renew_until_lost(self) -> None:
        """Renew, now and at intervals, until cancelled or until another holder has taken the lease over."""
        while self._version:
            await self._change(self._clock() + LEASE)
            await asyncio.sleep(RENEW_SECONDS)

    async def release(self) -> None:
        """Release the lease, if it is held, so that the next holder starts at once."""
        if self._version:
            await self._change(EXPIRED)
            self.released = self._version

    async def _try_to_acquire(self) -> bool:
        if self.released:
            expected, self.released = self.released, 0
            with suppress(VersionConflict):
                await self._put(self._clock() + LEASE, expected=expected)
                return True
        found = await self._documents.get(self._scope, Lease, self._name)
        mine = found is not None and found.record.holder == self._holder
        if found is not None and not mine and self._watch.is_held(found, found.record.expires_at):
            return False
        try:
            await self._put(self._clock() + LEASE, expected=found.version if found else 0)
        except VersionConflict:
            return False
        return True

    async def _change(self, expires_at: datetime) -> None:
        """Write a new expiry at our own version; if that fails, the work continues."""
        try:
            try:
                await self._put(expires_at, expected=self._version)
            except VersionConflict:
                # Either another holder has taken over, or the reply to our own last write was lost.
                found = await self._documents.get(self._scope, Lease, self._name)
                if found is None:
                    raise SessionNotFound(self._thread.session_id) from None
                if found.record.holder != self._holder:
                    raise
                await self._put(expires_at, expected=found.version)
        except SessionNotFound:
            self._version = 0  # deleted with its session
        except VersionConflict:
            self._version = 0
            _log.warning("the lease %s was lost while its work ran", self._name)
        except Exception as problem:  # noqa: BLE001 — a renewal must survive any store error
            _log.warning("the lease %s could not be changed: %r", self._name, problem)

    async def _put(self, expires_at: datetime, *, expected: int) -> None:
        """Write the lease; a holder cancelled meanwhile still learns that it holds it, and releases it."""
        await run_to_completion(self._put_and_record(expires_at, expected))

    async def _put_and_record(self, expires_at: datetime, expected: int) -> None:
        lease = Lease(
            name=self._name,
            session_id=self._thread.session_id,
            incarnation=self._thread.incarnation or "",
            holder=self._holder,
            expires_at=expires_at,
        )
        stored = await self._documents.put(self._scope, lease, expected=expected)
        self._version = stored.version
