"""The circuit breaker, against a plain model of it, and with concurrent and cancelled callers."""

import asyncio
import logging
from itertools import count
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from wenmai.errors import ModelError, SessionNotFound, StoreUnavailable
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy, BreakerStatus

POLICY = BreakerPolicy(consecutive_failures=3, window=6, failure_rate=0.5, minimum_calls=4, wait_seconds=30)


class Watch:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        """The seconds that have passed."""
        return self.seconds


def broken() -> StoreUnavailable:
    """The exception of a dead store."""
    return StoreUnavailable("redis", "gone")


async def fail(breaker: Breaker, times: int) -> None:
    """So many failing calls."""

    async def work() -> None:
        raise broken()

    for _ in range(times):
        with pytest.raises(StoreUnavailable, match="gone"):
            await breaker.call(work)


async def succeed(breaker: Breaker) -> None:
    """One call that succeeds."""

    async def work() -> None:
        return

    await breaker.call(work)


def state_of(breaker: Breaker) -> str:
    """The current state; a call, so that a type checker expects it to change."""
    return breaker.status.state


def opened(watch: Watch, **policy: Any) -> Breaker:
    """A breaker that has opened just now, with one failure in a row too many."""
    breaker = Breaker("redis", policy=BreakerPolicy(**{"consecutive_failures": 1, **policy}), clock=watch)
    breaker.record_result(breaker.admit(), failed=True)
    assert state_of(breaker) == "open"
    return breaker


class BreakerMachine(RuleBasedStateMachine):
    """Calls begin and end in any order while time passes; the model derives the state from the whole history."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = Watch()
        self.breaker = Breaker("redis", policy=POLICY, clock=self.watch)
        self.state = "closed"
        self.era = 0
        self.history: list[bool] = []
        self.until = 0.0
        self.serial = count()
        self.running: dict[int, tuple[int, int]] = {}

    def probing(self) -> bool:
        """Whether a call of this era is in progress while the breaker is half-open."""
        return self.state == "half_open" and any(era == self.era for era, _ in self.running.values())

    def enter(self, state: str) -> None:
        """A new era in the model."""
        self.state, self.history, self.era = state, [], self.era + 1
        if state == "open":
            self.until = self.watch.seconds + POLICY.wait_seconds

    def must_open(self) -> bool:
        """Whether the history of this era opens the breaker."""
        row, latest = self.history[-POLICY.consecutive_failures :], self.history[-POLICY.window :]
        in_a_row = len(row) == POLICY.consecutive_failures and all(row)
        return in_a_row or (
            len(latest) >= POLICY.minimum_calls and latest.count(True) >= POLICY.failure_rate * len(latest)
        )

    @rule()
    def begin(self) -> None:
        """A call is admitted exactly if the model says so."""
        if self.state == "open" and self.watch.seconds >= self.until:
            self.enter("half_open")
        refused = self.state == "open" or self.probing()
        try:
            generation = self.breaker.admit()
        except StoreUnavailable:
            assert refused
            return
        assert not refused
        self.running[next(self.serial)] = (self.era, generation)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), failed=st.booleans())
    def end(self, data: st.DataObject, failed: bool) -> None:  # noqa: FBT001 — drawn by hypothesis
        """Any running call ends; it counts if no era has begun since."""
        era, generation = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        self.breaker.record_result(generation, failed=failed)
        if era != self.era:
            return
        if self.state == "half_open":
            self.enter("open" if failed else "closed")
            return
        self.history.append(failed)
        if failed and self.must_open():
            self.enter("open")

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        """Any running call is cancelled, which counts for nothing."""
        _, generation = self.running.pop(data.draw(st.sampled_from(sorted(self.running))))
        self.breaker.release(generation)

    @rule(seconds=st.sampled_from([0.0, 1.0, 29.0, 30.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        """Time passes."""
        self.watch.seconds += seconds

    @invariant()
    def same_state(self) -> None:
        """The breaker is in the model's state."""
        assert state_of(self.breaker) == self.state


TestAgainstTheModel = BreakerMachine.TestCase
TestAgainstTheModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


async def test_five_failures_in_a_row_open_it_for_thirty_seconds() -> None:
    """The defaults: the fifth failure opens; 29.9 s later a call is refused, at 30 s one is admitted."""
    watch = Watch()
    breaker = Breaker("redis", clock=watch)
    await fail(breaker, 4)
    await succeed(breaker)
    await fail(breaker, 4)
    assert state_of(breaker) == "closed"
    await fail(breaker, 1)
    assert state_of(breaker) == "open"
    watch.seconds = 29.9
    with pytest.raises(StoreUnavailable, match=r"redis is unavailable: circuit breaker open") as refusal:
        await succeed(breaker)
    assert refusal.value.retry_after == 1
    watch.seconds = 30
    await succeed(breaker)
    assert state_of(breaker) == "closed"


async def test_a_refusal_has_retry_after() -> None:
    """``retry_after`` is the rest of the wait in whole seconds; the work is not started."""
    watch = Watch()
    breaker = opened(watch)
    watch.seconds = 12.5
    begun = []

    async def work() -> None:
        begun.append(1)

    with pytest.raises(StoreUnavailable) as refusal:
        await breaker.call(work)
    assert refusal.value.retry_after == 18
    assert begun == []


async def test_exceptions_that_are_answers_do_not_count() -> None:
    """An exception that is not counted is an answer: it passes through and closes a half-open breaker."""
    watch = Watch()

    async def absent() -> None:
        raise SessionNotFound("session-1")

    breaker = opened(watch)
    watch.seconds = 30
    for _ in range(20):
        with pytest.raises(SessionNotFound):
            await breaker.call(absent)
    assert state_of(breaker) == "closed"


async def test_slow_calls_are_failures() -> None:
    """A call that succeeds after ``slow_seconds`` counts as a failure; its result is returned all the same."""
    watch = Watch()
    breaker = Breaker("redis", policy=BreakerPolicy(consecutive_failures=2, slow_seconds=0.5), clock=watch)

    async def take(seconds: float) -> str:
        watch.seconds += seconds
        return "done"

    assert await breaker.call(lambda: take(0.5)) == "done"
    await breaker.call(lambda: take(0.4))
    await breaker.call(lambda: take(0.6))
    assert state_of(breaker) == "closed"
    await breaker.call(lambda: take(0.7))
    assert state_of(breaker) == "open"


async def test_one_of_a_hundred_callers_is_the_probe() -> None:
    """Of 100 concurrent calls in half-open exactly one is admitted, and the others fail at once."""
    watch = Watch()
    breaker = opened(watch)
    watch.seconds = 31
    reached, healed = [], asyncio.Event()

    async def work() -> None:
        reached.append(1)
        await healed.wait()

    calls = [asyncio.ensure_future(breaker.call(work)) for _ in range(100)]
    await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
    assert len(reached) == 1
    healed.set()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes].count(StoreUnavailable) == 99
    assert state_of(breaker) == "closed"
    assert breaker.status.refused == 99


async def test_a_cancelled_probe_makes_room_for_the_next() -> None:
    """A cancelled probe has no result: the breaker stays half-open and the next call is the probe."""
    watch = Watch()
    breaker = opened(watch)
    watch.seconds = 30
    probe = asyncio.ensure_future(breaker.call(asyncio.Event().wait))
    await asyncio.sleep(0)
    with pytest.raises(StoreUnavailable):
        await succeed(breaker)
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert state_of(breaker) == "half_open"
    await succeed(breaker)
    assert state_of(breaker) == "closed"


async def test_a_probe_that_is_cancelled_by_its_own_timeout_has_failed() -> None:
    """``asyncio.timeout`` inside the call cancels it too, but ends as TimeoutError, which counts."""
    watch = Watch()
    breaker = opened(watch)
    watch.seconds = 30

    async def work() -> None:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        await breaker.call(work)
    assert state_of(breaker) == "open"
    assert breaker.status.opened_at == 30


async def test_late_results_of_an_older_state_do_not_count() -> None:
    """Calls admitted before it opened do not change a later state."""
    watch = Watch()
    breaker = Breaker("redis", policy=BreakerPolicy(consecutive_failures=1), clock=watch)
    late_failure, late_success = breaker.admit(), breaker.admit()
    breaker.record_result(breaker.admit(), failed=True)
    watch.seconds = 30
    probe = breaker.admit()
    breaker.record_result(late_success, failed=False)
    assert state_of(breaker) == "half_open"
    breaker.release(late_success)
    with pytest.raises(StoreUnavailable):
        breaker.admit()
    breaker.record_result(probe, failed=False)
    breaker.record_result(late_failure, failed=True)
    assert state_of(breaker) == "closed"


async def test_the_listener_is_called_for_each_state_change() -> None:
    """It gets the new state with the count of failures and the time, once for each change."""
    watch = Watch()
    changes: list[BreakerStatus] = []
    policy = BreakerPolicy(consecutive_failures=2)
    breaker = Breaker("milvus", policy=policy, clock=watch, listener=changes.append)
    await fail(breaker, 2)
    watch.seconds = 30
    await fail(breaker, 1)
    watch.seconds = 60
    await succeed(breaker)
    received = [(status.name, status.state, status.failures, status.opened_at) for status in changes]
    assert received == [
        ("milvus", "open", 2, 0.0),
        ("milvus", "half_open", 2, 0.0),
        ("milvus", "open", 3, 30.0),
        ("milvus", "half_open", 3, 30.0),
        ("milvus", "closed", 0, None),
    ]


async def test_only_retryable_model_errors_count() -> None:
    """A prompt that is too long and exceptions of a reader do not count; refusals are model errors."""
    breaker = Breaker("model", kind=MODEL, policy=BreakerPolicy(consecutive_failures=1), clock=Watch())
    for error in (ModelError("any", "too long"), TimeoutError("the reader"), ConnectionError("the reader")):
        with pytest.raises(type(error)), breaker.guard():
            raise error
    assert state_of(breaker) == "closed"
    with pytest.raises(ModelError, match="busy"), breaker.guard():
        raise ModelError("any", "busy", retryable=True)
    with pytest.raises(ModelError, match=r"model: circuit breaker open .*, next probe in 30 s") as refusal:
        await succeed(breaker)
    assert refusal.value.retryable


async def test_a_change_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A warning when it opens and a line when it closes; none for refused calls."""
    watch = Watch()
    breaker = Breaker("redis", policy=BreakerPolicy(consecutive_failures=2), clock=watch)
    with caplog.at_level(logging.INFO, "wenmai.resilience.breaker"):
        await fail(breaker, 2)
        for _ in range(3):
            with pytest.raises(StoreUnavailable):
                breaker.admit()
        watch.seconds = 30
        await succeed(breaker)
    logged = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert logged == [
        ("WARNING", "circuit breaker redis opened: 2 failures in a row"),
        ("INFO", "circuit breaker redis closed"),
    ]
