"""Debouncing: a key is passed on when it has not been touched for a while, or together with others."""

import asyncio
from collections.abc import Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

SLICE = 200
"""Keys passed on per step of the event loop."""


class Debounce(Generic[K]):
    """Passes keys on after ``idle`` seconds without a touch, or after ``longest`` seconds of touches.

    A touch is O(1): keys are kept in the order of their last touch, and one timer looks at the oldest.

    Args:
        on_idle: called with the key, and the loop's time of its first touch.
        idle: seconds.
        longest: seconds.
        capacity: most keys; further ones are passed on at once.
    """

    def __init__(self, on_idle: Callable[[K, float], None], *, idle: float, longest: float, capacity: int) -> None:
        self._on_idle = on_idle
        self._idle = idle
        self._longest = longest
        self._capacity = capacity
        self._touched: dict[K, tuple[float, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __contains__(self, key: object) -> bool:
        """Whether the key was touched and is not passed on yet."""
        return key in self._touched

    def touch(self, key: K) -> None:
        """Note activity of the key."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        first, _ = self._touched.pop(key, (now, now))
        if now - first >= self._longest or len(self._touched) >= self._capacity:
            self._on_idle(key, first)
            return
        self._touched[key] = (first, now)
        if self._timer is None:
            self._timer = loop.call_later(self._idle, self._pass_on)

    def pop(self, key: K) -> float | None:
        """Forget the key; returns the loop's time of its first touch, None if it has none."""
        first, _ = self._touched.pop(key, (None, None))
        return first

    def pending(self) -> dict[K, float]:
        """The keys that are not passed on yet, with the loop's time of their first touch."""
        return {key: first for key, (first, _) in self._touched.items()}

    def flush(self) -> None:
        """Pass all keys on now."""
        touched, self._touched = self._touched, {}
        for key, (first, _) in touched.items():
            self._on_idle(key, first)

    def close(self) -> None:
        """Forget all keys."""
        self._touched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _pass_on(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time() - self._idle
        idle = [(key, first) for key, (first, last) in islice(self._touched.items(), SLICE) if last <= due]
        for key, first in idle:
            del self._touched[key]
            self._on_idle(key, first)
        self._timer = None
        if self._touched:
            _, last = next(iter(self._touched.values()))
            self._timer = loop.call_at(last + self._idle, self._pass_on)


class Gathering(Generic[K]):
    """Passes keys on together, at intervals, so that their work is shared; a key that is added again and again waits.

    Args:
        pass_on: called with each key, and the loop's time at which it was added first.
        seconds: the interval.
        quiet: a key is passed on when it was not added for so many seconds,
        longest: or when it waits for so many.
    """

    def __init__(self, pass_on: Callable[[K, float], None], *, seconds: float, quiet: float, longest: float) -> None:
        self._pass_on = pass_on
        self._seconds = seconds
        self._quiet = quiet
        self._longest = longest
        self._keys: dict[K, tuple[float, float]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: K, since: float | None = None) -> None:
        """Pass the key on soon; ``since`` is the loop's time since which it is behind, None for now."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        first, _ = self._keys.get(key, (now if since is None else since, now))
        self._keys[key] = (first, now)
        if self._timer is None:
            self._timer = loop.call_later(self._seconds, self._tick)

    def pending(self) -> dict[K, float]:
        """The keys that are not passed on yet, with the loop's time since which they are behind."""
        return {key: first for key, (first, _) in self._keys.items()}

    def flush(self) -> None:
        """Pass all keys on now."""
        keys, self._keys = self._keys, {}
        self._cancel()
        for key, (since, _) in keys.items():
            self._pass_on(key, since)

    def close(self) -> None:
        """Forget all keys."""
        self._keys.clear()
        self._cancel()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        now = loop.time()
        due = {
            key: first
            for key, (first, last) in self._keys.items()
            if now - last >= self._quiet or now - first >= self._longest
        }
        for key, since in due.items():
            del self._keys[key]
            self._pass_on(key, since)
        self._timer = loop.call_later(self._seconds, self._tick) if self._keys else None

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
