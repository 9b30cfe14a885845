"""A queue of keys to work on: coalescing, one run per key at a time, bounded, with retries after failures."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from wenmai.errors import NotFound, StoreError
from wenmai.resilience.background import BackgroundTasks

_log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)

MAX_ATTEMPTS = 5
FIRST_RETRY_SECONDS = 1.0
"""Delay of the first retry; each further one waits twice as long."""

LONGEST_REST_SECONDS = 1.0

RESTED_SECONDS = 10.0
"""Longest sum of the rests between keys that wait together; else keys that come faster would wait ever longer."""

LEAST_REST = 9.0
"""How many times as long as its run a rest takes at least, up to the longest one: requests have nine tenths of the
process, and a run that waited for a model holds nothing up."""

LOG_SECONDS = 60.0
"""Interval at which failures of one kind are logged: if a store fails, the work on all keys does."""


class RetryLater(Exception):
    """Raised by work that cannot run now; it is retried after ``seconds`` and does not count as a failure."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class WorkQueue(Generic[K]):
    """Runs the work for submitted keys in the background.

    A key that is submitted again while it waits runs once; while it runs, once more afterwards.

    Args:
        what: names the work in the log.
        work: does the work for a key.
        tasks: run it.
        concurrency: most keys at a time.
        capacity: most keys that wait, for their turn or for a retry; further ones are refused.
        rest: how many times as long as a run took to wait before the next one, so that many keys at once leave the
            process to its requests; at most 1 s, and less if more than ten keys wait, down to nine times as long.

    Attributes:
        failures: runs that failed since the start.
        given_up: keys given up after repeated failures since the start.
        dropped: True once a key was refused, or given up after repeated failures; the owner may reset it.
    """

    def __init__(
        self,
        what: str,
        work: Callable[[K], Awaitable[None]],
        tasks: BackgroundTasks,
        *,
        concurrency: int,
        capacity: int,
        rest: float = 0.0,
    ) -> None:
        self.failures: int = 0
        self.given_up: int = 0
        self.dropped: bool = False
        self._what = what
        self._work = work
        self._tasks = tasks
        self._concurrency = concurrency
        self._capacity = capacity
        self._rest = rest
        self._resting: set[asyncio.TimerHandle] = set()
        self._waiting: dict[K, float] = {}
        self._most_waiting = 0
        self._running: dict[K, float] = {}
        self._again: dict[K, float] = {}
        self._delayed: dict[K, tuple[float, asyncio.TimerHandle]] = {}
        self._attempts: dict[K, int] = {}
        self._logged: dict[type[Exception], float] = {}
        self._open = True

    @property
    def is_full(self) -> bool:
        """Whether further keys are refused now."""
        return len(self._waiting) + len(self._delayed) >= self._capacity

    @property
    def is_idle(self) -> bool:
        """Whether no key waits or runs; one that waits for a retry does not count."""
        return not self._waiting and not self._running

    def pending(self) -> dict[K, float]:
        """All keys that wait, run, or are to be retried, with the loop's time since which they are behind."""
        delayed = {key: since for key, (since, _) in self._delayed.items()}
        return delayed | self._again | self._waiting | self._running

    def submit(self, key: K, since: float | None = None) -> None:
        """Work on the key soon.

        Args:
            key: what to work on.
            since: the loop's time since which it is behind; None means now.
        """
        if not self._open:
            return
        if since is None:
            since = asyncio.get_running_loop().time()
        if key in self._running:
            self._again.setdefault(key, since)
            return
        if key in self._delayed:
            earlier, timer = self._delayed.pop(key)
            timer.cancel()
            since = min(since, earlier)
        if key not in self._waiting and self.is_full:
            self.dropped = True
            self._attempts.pop(key, None)
            return
        self._waiting.setdefault(key, since)
        self._most_waiting = max(self._most_waiting, len(self._waiting))
        self._fill()

    def hurry(self) -> None:
        """Do not rest before the keys that wait now."""
        while self._resting:
            self._resting.pop().cancel()
        self._fill()

    def rest_after(self, seconds: float) -> None:
        """Rest as after a run of so many seconds, for work that a run has caused elsewhere; or longer, if it rests."""
        if not self._rest or not self._open:
            return
        if self._resting:
            now = asyncio.get_running_loop().time()
            ends = [timer.when() for timer in self._resting]
            while self._resting:
                self._resting.pop().cancel()
            for end in ends:
                self._rest_for(max(0.0, end - now) + min(LEAST_REST * seconds, LONGEST_REST_SECONDS))
        else:
            self._begin_rest(seconds)

    def close(self) -> None:
        """Drop all waiting keys and refuse others; running work ends with its tasks."""
        self._open = False
        for timer in (*self._resting, *(timer for _, timer in self._delayed.values())):
            timer.cancel()
        for keys in (self._waiting, self._again, self._delayed, self._attempts):
            keys.clear()

    def _fill(self) -> None:
        while self._waiting and len(self._running) + len(self._resting) < self._concurrency:
            key = next(iter(self._waiting))
            self._running[key] = self._waiting.pop(key)
            self._tasks.start(self._run(key))
        if not self._waiting:
            self._most_waiting = 0

    async def _run(self, key: K) -> None:
        delay = None
        began = asyncio.get_running_loop().time()
        try:
            await self._work(key)
        except NotFound:
            self._attempts.pop(key, None)  # deleted meanwhile
        except RetryLater as later:
            delay = later.seconds
        except StoreError as problem:
            delay = self._delay_after_failure(key)
            if self._is_news(problem):
                _log.warning("%s failed, %s: %s", self._what, _plan(delay), problem)
        except Exception as problem:  # noqa: BLE001 — logged and retried
            delay = self._delay_after_failure(key)
            if self._is_news(problem):
                _log.exception("%s failed unexpectedly, %s", self._what, _plan(delay))
        else:
            self._attempts.pop(key, None)
        finally:
            # Also if the work was cancelled, or the keys that wait would never run.
            if self._rest and self._open:
                self._begin_rest(asyncio.get_running_loop().time() - began)
            self._end(key, delay)

    def _begin_rest(self, worked: float) -> None:
        together = max(RESTED_SECONDS / max(self._most_waiting, 1), LEAST_REST * worked)
        self._rest_for(min(self._rest * worked, together, LONGEST_REST_SECONDS))

    def _rest_for(self, seconds: float) -> None:
        def end() -> None:
            self._resting.discard(timer)
            self._fill()

        timer = asyncio.get_running_loop().call_later(seconds, end)
        self._resting.add(timer)

    def _end(self, key: K, delay: float | None) -> None:
        since = self._running.pop(key)
        again = self._again.pop(key, None)
        if delay is not None and self._open:
            timer = asyncio.get_running_loop().call_later(delay, self.submit, key)
            self._delayed[key] = (since, timer)
        elif again is not None:
            self.submit(key, again)
        self._fill()

    def _is_news(self, problem: Exception) -> bool:
        """Whether no failure of this kind was logged lately."""
        now = asyncio.get_running_loop().time()
        if now - self._logged.get(type(problem), -LOG_SECONDS) < LOG_SECONDS:
            return False
        self._logged[type(problem)] = now
        return True

    def _delay_after_failure(self, key: K) -> float | None:
        self.failures += 1
        attempt = self._attempts.pop(key, 0) + 1
        if attempt >= MAX_ATTEMPTS:
            self.given_up += 1
            self.dropped = True
            return None
        self._attempts[key] = attempt
        return FIRST_RETRY_SECONDS * 2.0 ** (attempt - 1)


def _plan(delay: float | None) -> str:
    return "giving up until the next sweep" if delay is None else f"retrying in {delay:g} s"
