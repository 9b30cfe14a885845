"""Where a test's processes keep things: opened the same way in all of them, whatever it is."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from wenmai.clock import Clock, system_clock
from wenmai.memory.manager import Memory, required
from wenmai.stores.base import Logs, Store
from wenmai.stores.registry import open_store


class Place(msgspec.Struct, frozen=True):
    """The URL of a store, and of the Redis in front of it if there is one; travels as JSON on command lines."""

    store: str
    hot: str = ""

    @property
    def argument(self) -> str:
        """The place as one argument of a command line."""
        return msgspec.json.encode(self).decode()


def place_of(argument: str) -> Place:
    """The inverse of :attr:`Place.argument`."""
    return msgspec.json.decode(argument, type=Place)


def sqlite_at(path: Path) -> Place:
    """A SQLite file."""
    return Place(f"sqlite:///{path}")


@asynccontextmanager
async def opened(place: Place, *, clock: Clock = system_clock) -> AsyncIterator[tuple[Memory, Logs]]:
    """The memory over the place, and the log beneath it."""
    async with AsyncExitStack() as stores:
        store: Store = await stores.enter_async_context(open_store(place.store, clock=clock))
        if place.hot:
            from wenmai.stores.tiers import open_tiers  # noqa: PLC0415 — it loads the driver, at each of many starts

            store = await stores.enter_async_context(open_tiers(store, place.hot, clock=clock))
        documents, logs = required(store, place.store)
        yield Memory(documents, logs, clock=clock), logs
