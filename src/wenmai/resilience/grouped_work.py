"""Grouped work: what is given for a key while its work runs is worked on together afterwards, as in a group commit."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class _Given(Generic[T]):
    """The items of one caller."""

    def __init__(self, items: Sequence[T]) -> None:
        self.items = items
        self.done = False


class GroupedWork(Generic[K, T]):
    """Does the work of concurrent callers in few calls; one call per key at a time.

    Args:
        work: called with a key and the items of one caller or of several, in the order in which they came.
    """

    def __init__(self, work: Callable[[K, Sequence[T]], Awaitable[None]]) -> None:
        self._work = work
        self._waiting: dict[K, list[_Given[T]]] = {}
        self._locks: WeakValueDictionary[K, asyncio.Lock] = WeakValueDictionary()

    async def add(self, key: K, items: Sequence[T]) -> None:
        """Return when the work on the items is done; an error is that of the work on these items alone."""
        given = _Given(items)
        self._waiting.setdefault(key, []).append(given)
        lock = self._locks.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if not given.done:
                    await self._lead(key, given)
        finally:
            self._forget(key, given)

    async def _lead(self, key: K, own: _Given[T]) -> None:
        """Work on all that waits, or on one's own items alone if others may be at fault."""
        if own in self._waiting.get(key, ()):
            together = self._waiting.pop(key)
            try:
                await self._work(key, [item for given in together for item in given.items])
            except Exception:  # raised if it is one's own; else one's own items are tried alone, as the others' will be
                if len(together) == 1:
                    raise
            else:
                for given in together:
                    given.done = True
                return
        await self._work(key, own.items)

    def _forget(self, key: K, given: _Given[T]) -> None:
        """Leave nothing of a caller that was cancelled while it waited."""
        waiting = self._waiting.get(key, [])
        if given in waiting:
            waiting.remove(given)
            if not waiting:
                del self._waiting[key]
