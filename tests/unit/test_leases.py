"""Leases on threads and claims on keys: lost replies, clock skew, sleeping holders, deleted sessions."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import StoreUnavailable, ThreadBusy
from wenmai.memory.idempotency import Claim, WorkResult
from wenmai.memory.library import Memory, required
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.opening import open_store
from wenmai.stores.records import IdempotentTurn, Lease

OWNER = Scope()
THREAD = ThreadKey("talk", "elder")
UNFORESEEN = RuntimeError("another operation is in progress")
FAILURES = pytest.mark.parametrize(
    "failure", [StoreUnavailable("documents", "the connection was closed"), UNFORESEEN], ids=["foreseen", "unforeseen"]
)


class FlakyStore:
    """A store that can lose the reply to a put: the put is done, but its caller gets an error."""

    def __init__(self, documents: Documents, logs: Logs, clock: MovableClock) -> None:
        self._documents = documents
        self.logs = logs
        self.clock = clock
        self.lost: type | None = None
        self.failure: Exception = UNFORESEEN
        self._written = asyncio.Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._documents, name)

    async def put(self, scope: Scope, record: Any, **how: Any) -> Any:
        """As in the store, except that the reply to one put of the record type in ``lost`` is lost."""
        stored = await self._documents.put(scope, record, **how)
        if isinstance(record, (Lease, IdempotentTurn)):
            self._written.release()
        if type(record) is self.lost and stored.version > 1:
            self.lost = None
            raise self.failure
        return stored

    def process(self) -> Memory:
        """The memory of another process."""
        return Memory(self, self.logs, clock=self.clock)

    async def renewed(self, times: int) -> None:
        """Wait until leases and claims were written so many more times."""
        while not self._written.locked():
            await self._written.acquire()
        async with asyncio.timeout(5):
            for _ in range(times):
                await self._written.acquire()


@pytest.fixture
async def flaky(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FlakyStore]:
    """An empty store; leases and claims are renewed at short intervals."""
    monkeypatch.setattr("wenmai.stores.lease.RENEW_SECONDS", 0.01)
    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 0.01)
    clock = MovableClock()
    async with open_store("memory://", clock=clock) as store:
        documents, logs = required(store, "memory://")
        yield FlakyStore(documents, logs, clock)


@FAILURES
async def test_a_renewal_with_a_lost_reply_keeps_the_lease(flaky: FlakyStore, failure: Exception) -> None:
    """It was written: the holder continues to renew it, and no other turn gets in."""
    flaky.failure = failure
    first, second = flaky.process(), flaky.process()
    await first.session(THREAD.session_id)
    async with first.thread_lock.hold(OWNER, THREAD):
        flaky.lost = Lease
        await flaky.renewed(2)
        assert flaky.lost is None
        flaky.clock.advance(timedelta(seconds=4))
        await flaky.renewed(2)
        flaky.clock.advance(timedelta(seconds=4))
        with pytest.raises(ThreadBusy):
            async with second.thread_lock.hold(OWNER, THREAD, "reject"):
                pass
    async with second.thread_lock.hold(OWNER, THREAD, "reject"):
        pass


@FAILURES
async def test_a_claim_with_a_lost_renewal_reply_is_kept_by_its_attempt(flaky: FlakyStore, failure: Exception) -> None:
    """The work is done once, and its answer is stored for the key."""
    flaky.failure = failure
    memory, other = flaky.process(), flaky.process()
    session = await memory.session(THREAD.session_id)
    incarnation = (await session.record()).incarnation
    attempts = []

    async def work(claim: Claim) -> WorkResult:
        attempts.append(claim.attempt_id)
        flaky.lost = IdempotentTurn
        await flaky.renewed(2)
        assert flaky.lost is None
        flaky.clock.advance(timedelta(seconds=4))
        await flaky.renewed(2)
        return WorkResult({"attempt": len(attempts)}, THREAD.session_id, incarnation)

    first = asyncio.create_task(memory.idempotency.once(OWNER, "key", {}, THREAD.session_id, work))
    await asyncio.sleep(0.01)
    mine, others = await asyncio.gather(first, other.idempotency.once(OWNER, "key", {}, THREAD.session_id, work))
    assert mine == others == {"attempt": 1}
    assert len(attempts) == 1


async def test_a_claim_from_a_clock_ahead_blocks_no_longer_than_others(
    flaky: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder is dead, its expiry an hour away: the key is free once the claim was not renewed for its duration."""
    monkeypatch.setattr("wenmai.memory.idempotency.ATTEMPT", timedelta(seconds=0.1))
    memory = flaky.process()
    incarnation = (await (await memory.session(THREAD.session_id)).record()).incarnation
    begun = asyncio.Event()

    async def dies(_claim: Claim) -> WorkResult:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work(_claim: Claim) -> WorkResult:
        return WorkResult({"done": True}, THREAD.session_id, incarnation)

    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 3600)
    ahead = MovableClock(flaky.clock() + timedelta(hours=1))
    dead = asyncio.create_task(
        Memory(flaky, flaky.logs, clock=ahead).idempotency.once(OWNER, "key", {}, THREAD.session_id, dies)
    )
    await begun.wait()
    async with asyncio.timeout(5):
        assert await memory.idempotency.once(OWNER, "key", {}, THREAD.session_id, work) == {"done": True}
    dead.cancel()
    await asyncio.wait([dead])


async def test_the_holder_of_a_deleted_sessions_lease_does_not_change_its_successors(flaky: FlakyStore) -> None:
    """The session is deleted and recreated during a turn: the old turn neither renews nor releases the new lease."""
    first, second, third = flaky.process(), flaky.process(), flaky.process()
    await first.session(THREAD.session_id)
    async with first.thread_lock.hold(OWNER, THREAD):
        await second.sessions.delete(OWNER, THREAD.session_id)
        await second.session(THREAD.session_id)
        async with second.thread_lock.hold(OWNER, THREAD, "reject"):
            await flaky.renewed(4)
            (held,) = [lease.record for lease in (await flaky.list(OWNER, Lease)).items]
            with pytest.raises(ThreadBusy):
                async with third.thread_lock.hold(OWNER, THREAD, "reject"):
                    pass
        (ended,) = [lease.record for lease in (await flaky.list(OWNER, Lease)).items]
    assert ended.holder == held.holder
    assert ended.expires_at < flaky.clock()


async def test_a_holder_that_slept_for_hours_cannot_take_its_successors_lease(
    flaky: FlakyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: the versions of a thread's lease only increase, so its write at the old version conflicts."""
    first, second, third = flaky.process(), flaky.process(), flaky.process()
    await first.session(THREAD.session_id)
    monkeypatch.setattr("wenmai.stores.lease.RENEW_SECONDS", 0.1)
    async with first.thread_lock.hold(OWNER, THREAD):
        await asyncio.sleep(0)  # its renewal starts to wait
        flaky.clock.advance(timedelta(hours=3))
        await flaky.sweep()
        monkeypatch.setattr("wenmai.stores.lease.RENEW_SECONDS", 3600)
        async with second.thread_lock.hold(OWNER, THREAD, "reject"):
            (held,) = [lease.record for lease in (await flaky.list(OWNER, Lease)).items]
            await asyncio.sleep(0.2)  # the first wakes up and renews
            (kept,) = [lease.record for lease in (await flaky.list(OWNER, Lease)).items]
            assert kept == held
            with pytest.raises(ThreadBusy):
                async with third.thread_lock.hold(OWNER, THREAD, "reject"):
                    pass
