"""A circuit breaker: what keeps failing is left alone for a while, then tried by one caller.

The semantics are those of resilience4j's count-based breaker, with one probe::

             failures in a row, or too many among the latest calls
    closed ─────────────────────────────────────────────────────────► open
      ▲                                                              │  ▲
      │ the probe succeeds                       wait_seconds passed │  │ the probe fails
      └─────────────────────────── half-open ◄───────────────────────┘  │
                                       └─────────────────────────────────┘

Each change of state begins a new generation, and the result of a call counts only in the generation in which the call
was let through: a slow failure of yesterday does not open what has healed since.
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

_LEFT_ALONE = "it has failed repeatedly and is left alone for now"


class Kind(NamedTuple):
    """What failing means for the things of one kind, and how a call of them is refused.

    Attributes:
        failed: whether an exception is a failure. Any other is an answer: "no such key" says that the server works.
        refusal: makes the exception for a call that is not let through, from the breaker's name and the seconds
            after which a probe may be.
    """

    failed: Callable[[BaseException | None], bool]
    refusal: Callable[[str, int], Exception]


STORE = Kind(
    failed=lambda error: isinstance(error, (StoreUnavailable, TimeoutError, OSError)),
    refusal=lambda name, seconds: StoreUnavailable(name, _LEFT_ALONE, retry_after=seconds),
)
"""Whatever says that a store cannot be reached or is late."""

MODEL = Kind(
    # A prompt that is too long fails too, but again and again, and says nothing of the server.
    failed=lambda error: isinstance(error, ModelError) and error.retryable,
    refusal=lambda name, seconds: ModelError(name, f"{_LEFT_ALONE}, {seconds} s", retryable=True),
)
"""Models and embedders: what another try may mend. What a reader of the answer raises is not the model's failure."""


class BreakerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a breaker opens, and for how long.

    Attributes:
        consecutive_failures: so many in a row open it.
        window: how many of the latest calls the failure rate is taken over.
        failure_rate: the share of failures, above 0 to 1, that opens it.
        minimum_calls: before there were so many, the rate opens nothing.
        slow_seconds: a call that takes so long counts as a failure, whatever its result; None for no limit.
        wait_seconds: how long it stays open before a probe is let through.
    """

    consecutive_failures: int = 5
    window: int = 100
    failure_rate: float = 0.5
    minimum_calls: int = 20
    slow_seconds: float | None = None
    wait_seconds: float = 30.0


class BreakerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker at one moment, for health checks and metrics.

    Attributes:
        failures: how many calls in a row have failed, up to now.
        refused: how many calls were not let through since the breaker was made.
        opened_at: the breaker's clock when it last opened, in seconds; None while it is closed.
    """

    name: str
    state: State
    failures: int
    refused: int
    opened_at: float | None


def log_change(status: BreakerStatus) -> None:
    """Log that a breaker has opened, as a warning, or closed; a probe begins without a word."""
    if status.state == "open":
        _log.warning("%s is left alone for now: %d failures in a row", status.name, status.failures)
    elif status.state == "closed":
        _log.info("%s works again", status.name)


class Breaker:
    """Guards calls of one thing; for one event loop.

    Args:
        name: of what it guards, as in ``degraded``.
        kind: what is a failure, and how a call is refused.
        policy: when it opens.
        clock: seconds that never go back.
        listener: is told of each change of state; it must not raise.
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
        """How it stands. An open one is shown as open until a call finds that its wait is over."""
        return BreakerStatus(
            name=self.name,
            state=self._state,
            failures=self._failures,
            refused=self._refused,
            opened_at=self._opened_at,
        )

    async def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """The result of ``work()``, if it is let through.

        Raises:
            StoreUnavailable: it is not; ``retry_after`` says when a probe may be. Of another kind: its refusal.
        """
        with self.guard():
            return await work()

    def guard(self) -> "Guard":
        """A context for ``with``, around whatever is awaited; entering it raises as :meth:`call` does."""
        return Guard(self)

    def admit(self) -> int:
        """Let a call through: the generation in which it began, to be given to :meth:`settle` or :meth:`release`.

        Raises:
            StoreUnavailable: the breaker is open, or another caller is the probe. Of another kind: its refusal.
        """
        if self._state == "open" and self._remaining() <= 0:
            self._change("half_open")
        if self._state == "open" or self._probing:
            self._refused += 1
            raise self._kind.refusal(self.name, max(1, ceil(self._remaining())))
        self._probing = self._state == "half_open"
        return self._generation

    def settle(self, generation: int, *, failed: bool) -> None:
        """Count the result of a call; nothing if the state has changed since it was let through."""
        if generation != self._generation:
            return
        self._failures = self._failures + 1 if failed else 0
        if self._state == "half_open":
            self._change("open" if failed else "closed")
            return
        self._latest.append(failed)
        if failed and self._too_many():
            self._change("open")

    def release(self, generation: int) -> None:
        """Forget a call that was given up before it had a result; if it was the probe, the next caller is."""
        if generation == self._generation:
            self._probing = False

    def judge(self, error: BaseException | None, seconds: float) -> bool:
        """Whether a call that took so long and ended so has failed."""
        slow = self._policy.slow_seconds
        return self._kind.failed(error) or (slow is not None and seconds >= slow)

    def now(self) -> float:
        """The breaker's clock."""
        return self._clock()

    def _too_many(self) -> bool:
        policy, calls = self._policy, len(self._latest)
        if self._failures >= policy.consecutive_failures:
            return True
        return calls >= policy.minimum_calls and sum(self._latest) / calls >= policy.failure_rate

    def _remaining(self) -> float:
        return 0.0 if self._opened_at is None else self._opened_at + self._policy.wait_seconds - self._clock()

    def _change(self, state: State) -> None:
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
            # Cancelled: whoever asked has gone, which says nothing of what was asked.
            self._breaker.release(self._generation)
            return
        failed = self._breaker.judge(error, self._breaker.now() - self._began)
        self._breaker.settle(self._generation, failed=failed)
