"""Optimistic writes: tried again while another process changes the same document, one at a time within this one."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from wenmai.errors import StoreUnavailable

ATTEMPTS = 60
"""Attempts of a write, over about ten seconds."""

_FIRST_SECONDS, _LONGEST_SECONDS = 0.002, 0.25


async def attempts(store: str) -> AsyncIterator[None]:
    """Iterate until the write is done, with growing random pauses.

    Raises:
        StoreUnavailable: it is not, however often it was tried.
    """
    for attempt in range(ATTEMPTS):
        yield
        longest = min(_LONGEST_SECONDS, _FIRST_SECONDS * 2**attempt)
        await asyncio.sleep(random.uniform(0, longest))  # noqa: S311 — no secret
    raise StoreUnavailable(store, "a document keeps changing")


class Locks:
    """A lock for each name in use."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def held(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of that name."""
        lock = self._locks.setdefault(name, asyncio.Lock())
        async with lock:
            yield
