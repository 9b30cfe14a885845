"""Leases on threads and claims on keys: lost answers, clocks that differ, holders that sleep, sessions deleted."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import StoreUnavailable, ThreadBusy
from wenmai.memory.idempotency import Answered, Claim
from wenmai.memory.manager import Memory, required
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import Documents, Logs
from wenmai.stores.records import IdempotentTurn, TurnLease
from wenmai.stores.registry import open_store

OWNER = Scope()
TALK = ThreadKey("talk", "elder")
UNFORESEEN = RuntimeError("another operation is in progress")
FAILURES = pytest.mark.parametrize(
    "failure", [StoreUnavailable("documents", "the connection was closed"), UNFORESEEN], ids=["foreseen", "unforeseen"]
)


class Place:
    """A store whose answers to puts can be lost: the put is done, and its caller learns of a failure."""

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
        """As of the store, but that the answer to a change of the type in ``lost`` is lost, once."""
        stored = await self._documents.put(scope, record, **how)
        if isinstance(record, (TurnLease, IdempotentTurn)):
            self._written.release()
        if type(record) is self.lost and stored.version > 1:
            self.lost = None
            raise self.failure
        return stored

    def process(self) -> Memory:
        """The memory as another process has it."""
        return Memory(self, self.logs, clock=self.clock)

    async def renewed(self, times: int) -> None:
        """Wait until leases and claims were written so many times more."""
        while not self._written.locked():
            await self._written.acquire()
        async with asyncio.timeout(5):
            for _ in range(times):
                await self._written.acquire()


@pytest.fixture
async def place(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    """An empty store; leases and claims are renewed without end, quickly."""
    monkeypatch.setattr("wenmai.memory.turns.RENEW_SECONDS", 0.01)
    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 0.01)
    clock = MovableClock()
    async with open_store("memory://", clock=clock) as store:
        documents, logs = required(store, "memory://")
        yield Place(documents, logs, clock)


@FAILURES
async def test_a_renewal_whose_answer_is_lost_keeps_the_lease(place: Place, failure: Exception) -> None:
    """It was written all the same: the holder goes on renewing it, and no other turn comes in beside."""
    place.failure = failure
    first, second = place.process(), place.process()
    await first.session(TALK.session_id)
    async with first.turns.turn(OWNER, TALK):
        place.lost = TurnLease
        await place.renewed(2)
        assert place.lost is None
        place.clock.advance(timedelta(seconds=4))
        await place.renewed(2)
        place.clock.advance(timedelta(seconds=4))
        with pytest.raises(ThreadBusy):
            async with second.turns.turn(OWNER, TALK, "reject"):
                pass
    async with second.turns.turn(OWNER, TALK, "reject"):
        pass


@FAILURES
async def test_a_claim_whose_renewal_is_not_answered_stays_with_its_attempt(place: Place, failure: Exception) -> None:
    """The work is done once, and its answer is the one that is kept for the key."""
    place.failure = failure
    memory, other = place.process(), place.process()
    session = await memory.session(TALK.session_id)
    incarnation = (await session.record()).incarnation
    attempts = []

    async def work(claim: Claim) -> Answered:
        attempts.append(claim.attempt_id)
        place.lost = IdempotentTurn
        await place.renewed(2)
        assert place.lost is None
        place.clock.advance(timedelta(seconds=4))
        await place.renewed(2)
        return Answered({"attempt": len(attempts)}, TALK.session_id, incarnation)

    first = asyncio.create_task(memory.idempotency.once(OWNER, "key", {}, TALK.session_id, work))
    await asyncio.sleep(0.01)
    mine, others = await asyncio.gather(first, other.idempotency.once(OWNER, "key", {}, TALK.session_id, work))
    assert mine == others == {"attempt": 1}
    assert len(attempts) == 1


async def test_a_claim_from_a_clock_that_was_ahead_blocks_no_longer_than_any(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its holder is dead, its end an hour away: the key is free once the claim was not renewed for its length."""
    monkeypatch.setattr("wenmai.memory.idempotency.ATTEMPT", timedelta(seconds=0.1))
    memory = place.process()
    incarnation = (await (await memory.session(TALK.session_id)).record()).incarnation
    begun = asyncio.Event()

    async def dies(_claim: Claim) -> Answered:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def work(_claim: Claim) -> Answered:
        return Answered({"done": True}, TALK.session_id, incarnation)

    monkeypatch.setattr("wenmai.memory.idempotency.RENEW_SECONDS", 3600)
    ahead = MovableClock(place.clock() + timedelta(hours=1))
    dead = asyncio.create_task(
        Memory(place, place.logs, clock=ahead).idempotency.once(OWNER, "key", {}, TALK.session_id, dies)
    )
    await begun.wait()
    async with asyncio.timeout(5):
        assert await memory.idempotency.once(OWNER, "key", {}, TALK.session_id, work) == {"done": True}
    dead.cancel()
    await asyncio.wait([dead])


async def test_the_holder_of_a_deleted_sessions_lease_leaves_its_successors_alone(place: Place) -> None:
    """The session is deleted under a turn and begun again: the old turn neither renews nor ends the new lease."""
    first, second, third = place.process(), place.process(), place.process()
    await first.session(TALK.session_id)
    async with first.turns.turn(OWNER, TALK):
        await second.sessions.delete(OWNER, TALK.session_id)
        await second.session(TALK.session_id)
        async with second.turns.turn(OWNER, TALK, "reject"):
            await place.renewed(4)
            (held,) = [lease.record for lease in (await place.list(OWNER, TurnLease)).items]
            with pytest.raises(ThreadBusy):
                async with third.turns.turn(OWNER, TALK, "reject"):
                    pass
        (ended,) = [lease.record for lease in (await place.list(OWNER, TurnLease)).items]
    assert ended.holder == held.holder
    assert ended.expires_at < place.clock()


async def test_a_holder_that_slept_for_hours_takes_no_lease_from_its_successor(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long: the numbers of a thread's lease go on, so what it writes at its old one is refused."""
    first, second, third = place.process(), place.process(), place.process()
    await first.session(TALK.session_id)
    monkeypatch.setattr("wenmai.memory.turns.RENEW_SECONDS", 0.1)
    async with first.turns.turn(OWNER, TALK):
        await asyncio.sleep(0)  # its renewal begins to wait
        place.clock.advance(timedelta(hours=3))
        await place.sweep()
        monkeypatch.setattr("wenmai.memory.turns.RENEW_SECONDS", 3600)
        async with second.turns.turn(OWNER, TALK, "reject"):
            (held,) = [lease.record for lease in (await place.list(OWNER, TurnLease)).items]
            await asyncio.sleep(0.2)  # the first wakes up and renews
            (kept,) = [lease.record for lease in (await place.list(OWNER, TurnLease)).items]
            assert kept == held
            with pytest.raises(ThreadBusy):
                async with third.turns.turn(OWNER, TALK, "reject"):
                    pass
