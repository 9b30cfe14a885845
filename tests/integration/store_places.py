"""The stores of a test with several processes, opened in the same way in all of them."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import msgspec

from wenmai.clock import Clock, system_clock
from wenmai.memory.library import Memory, required
from wenmai.stores.contracts import Logs, Store
from wenmai.stores.opening import open_store


class Place(msgspec.Struct, frozen=True):
    """The URLs of a store and of the Redis cache in front of it, if there is one; passed as JSON on command lines."""

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
    """The memory over the place, and its logs."""
    async with AsyncExitStack() as stores:
        store: Store = await stores.enter_async_context(open_store(place.store, clock=clock))
        if place.hot:
            from wenmai.stores.cache import open_cache  # noqa: PLC0415 — it loads the driver, which many processes do without

            store = await stores.enter_async_context(open_cache(store, place.hot, clock=clock))
        documents, logs = required(store, place.store)
        yield Memory(documents, logs, clock=clock), logs
