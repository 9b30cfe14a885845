"""Circuit breaker: stops calling a failing dependency, then probes it with a single call.

Semantics of resilience4j's count-based breaker, with one probe::

             failures in a row, or too many among the latest calls
    closed ─────────────────────────────────────────────────────────► open
      ▲                                                              │  ▲
      │ the probe succeeds                       wait_seconds passed │  │ the probe fails
      └─────────────────────────── half-open ◄───────────────────────┘  │
                                       └─────────────────────────────────┘

Each state change begins a new generation, and the result of a call counts only in the generation in which it was
admitted: a slow call that fails after the dependency has recovered does not open the breaker.
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from math import ceil
from time import monotonic
from types import TracebackType
from typing import Literal, NamedTuple, TypeVar

import msgspec

from wenmai.errors import ModelError, StoreUnavailable

T = TypeVar("T")
State = Literal["closed", "open", "half_open"]

_log = logging.getLogger(__name__)

_OPEN = "circuit breaker open after repeated failures"


class Kind(NamedTuple):
    """What counts as a failure of a dependency, and how calls are refused.

    Attributes:
        failed: whether an exception is a failure. Any other is an answer: "no such key" shows that the server works.
        refusal: makes the exception for a refused call, from the breaker's name and the seconds until a probe is
            allowed.
    """

    failed: Callable[[BaseException | None], bool]
    refusal: Callable[[str, int], Exception]


STORE = Kind(
    failed=lambda error: isinstance(error, (StoreUnavailable, TimeoutError, OSError)),
    refusal=lambda name, seconds: StoreUnavailable(name, _OPEN, retry_after=seconds),
)
"""Failures: the store is unreachable or late."""

MODEL = Kind(
    # Not a prompt that is too long: it fails every time, and says nothing about the server.
    failed=lambda error: isinstance(error, ModelError) and error.retryable,
    refusal=lambda name, seconds: ModelError(name, f"{_OPEN}, next probe in {seconds} s", retryable=True),
)
"""Failures of models and embedders: retryable errors. An exception of the answer's reader is not one."""


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and for how long.

    Attributes:
        consecutive_failures: opens after so many in a row.
        window: the failure rate is taken over so many of the latest calls.
        failure_rate: opens at this share of failures, above 0 to 1.
        minimum_calls: the rate opens it only after so many calls.
        slow_seconds: a call that takes so long counts as a failure, whatever its result; None for no limit.
        wait_seconds: time from opening until a probe is admitted.
    """

    consecutive_failures: int = 5
    window: int = 100
    failure_rate: float = 0.5
    minimum_calls: int = 20
    slow_seconds: float | None = None
    wait_seconds: float = 30.0


class BreakerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Snapshot of a breaker, for health checks and metrics.

    Attributes:
        failures: calls in a row that have failed, up to now.
        refused: calls refused since the breaker was created.
        opened_at: the breaker's clock when it last opened, in seconds; None while it is closed.
    """

    name: str
    state: State
    failures: int
    refused: int
    opened_at: float | None


def log_change(status: BreakerStatus) -> None:
    """Log that a breaker has opened (a warning) or closed; half-open is not logged."""
    if status.state == "open":
        _log.warning("circuit breaker %s opened: %d failures in a row", status.name, status.failures)
    elif status.state == "closed":
        _log.info("circuit breaker %s closed", status.name)


class Breaker:
    """A circuit breaker in front of one dependency; for one event loop.

    Args:
        name: of the dependency, as in ``degraded``.
        kind: what counts as a failure, and how calls are refused.
        policy: when it opens.
        clock: seconds that never go back.
        listener: called with each state change; it must not raise.
    """

    def __init__(
        self,
        name: str,
        *,
        kind: Kind = STORE,
        policy: BreakerPolicy | None = None,
        clock: Callable[[], float] = monotonic,
        listener: Callable[[BreakerStatus], None] = log_change,
    ) -> None:
        self.name = name
        self._kind = kind
        self._policy = policy or BreakerPolicy()
        self._clock = clock
        self._listener = listener
        self._state: State = "closed"
        self._generation = 0
        self._failures = 0
        self._latest: deque[bool] = deque(maxlen=self._policy.window)
        self._refused = 0
        self._opened_at: float | None = None
        self._probing = False

    @property
    def status(self) -> BreakerStatus:
        """A snapshot. An open breaker is shown as open until a call after its wait."""
        return BreakerStatus(
            name=self.name,
            state=self._state,
            failures=self._failures,
            refused=self._refused,
            opened_at=self._opened_at,
        )

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work()``, if the call is admitted.

        Raises:
            StoreUnavailable: it is refused; a probe is allowed after ``retry_after``. Another kind has its own refusal.
        """
        with self.guard():
            return await work()

    def guard(self) -> "Guard":
        """A context manager around one call; entering it raises as :meth:`call` does."""
        return Guard(self)

    def admit(self) -> int:
        """Admit a call; returns the current generation, for :meth:`record_result` or :meth:`release`.

        Raises:
            StoreUnavailable: the breaker is open, or another call is the probe. Another kind has its own refusal.
        """
        if self._state == "open" and self._remaining() <= 0:
            self._transition("half_open")
        if self._state == "open" or self._probing:
            self._refused += 1
            raise self._kind.refusal(self.name, max(1, ceil(self._remaining())))
        self._probing = self._state == "half_open"
        return self._generation

    def record_result(self, generation: int, *, failed: bool) -> None:
        """Count the result of a call; ignored if the state has changed since it was admitted."""
        if generation != self._generation:
            return
        self._failures = self._failures + 1 if failed else 0
        if self._state == "half_open":
            self._transition("open" if failed else "closed")
            return
        self._latest.append(failed)
        if failed and self._limit_reached():
            self._transition("open")

    def release(self, generation: int) -> None:
        """Forget a call that was cancelled before it had a result; if it was the probe, the next call is."""
        if generation == self._generation:
            self._probing = False

    def is_failure(self, error: BaseException | None, seconds: float) -> bool:
        """Whether a call that took so long and ended with this error, if any, counts as a failure."""
        slow = self._policy.slow_seconds
        return self._kind.failed(error) or (slow is not None and seconds >= slow)

    def now(self) -> float:
        """The time of the breaker's clock."""
        return self._clock()

    def _limit_reached(self) -> bool:
        policy, calls = self._policy, len(self._latest)
        if self._failures >= policy.consecutive_failures:
            return True
        return calls >= policy.minimum_calls and sum(self._latest) / calls >= policy.failure_rate

    def _remaining(self) -> float:
        return 0.0 if self._opened_at is None else self._opened_at + self._policy.wait_seconds - self._clock()

    def _transition(self, state: State) -> None:
        self._state = state
        self._generation += 1
        self._probing = False
        self._latest.clear()
        if state == "open":
            self._opened_at = self._clock()
        elif state == "closed":
            self._opened_at = None
        self._listener(self.status)


class Guard:
    """One call through a breaker, from :meth:`Breaker.guard`."""

    def __init__(self, breaker: Breaker) -> None:
        self._breaker = breaker
        self._generation = 0
        self._began = 0.0

    def __enter__(self) -> None:
        self._generation = self._breaker.admit()
        self._began = self._breaker.now()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, Exception):
            # Cancelled: the caller has gone, which says nothing about the dependency.
            self._breaker.release(self._generation)
            return
        failed = self._breaker.is_failure(error, self._breaker.now() - self._began)
        self._breaker.record_result(self._generation, failed=failed)
