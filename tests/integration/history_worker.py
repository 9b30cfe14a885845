"""A worker process of a random history, until the history ends or it is killed.

::

    python history_worker.py ORDER_AS_JSON    a line when the store is open; it begins when it is given a period as JSON
"""

import asyncio
import random
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from history_actor import Actor
from history_events import LIFETIME, Journal, SharedClock

from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.errors import StoreUnavailable
from wenmai.resilience.breaker import BreakerPolicy

AGAIN_SECONDS = 0.05


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a worker.

    Attributes:
        store: its settings.
        folder: where the journals and the clock are.
        process: the name of the process, of letters and digits.
    """

    store: dict[str, str]
    folder: str
    process: str
    seed: str
    actors: int


class Period(msgspec.Struct, frozen=True):
    """Start and end of a history, in seconds of the monotonic clock."""

    began: float
    until: float


@asynccontextmanager
async def engine_of(store: dict[str, str], clock: SharedClock) -> AsyncIterator[Engine]:
    """The engine, as opened by every process of a history."""
    flags = {
        **store,
        "session_lifetime_seconds": str(LIFETIME),
        "sample_sites": "",
        "shutdown_seconds": "2",
    }
    loaded = load_engine_settings(flags={"embedder": "none", **flags}, environment={})
    async with open_engine(loaded.values, clock=clock, breaker_policy=BreakerPolicy(wait_seconds=0.2)) as engine:
        yield engine


async def act_within(period: Period, engine: Engine, order: Order, journal: Journal) -> None:
    """Run the actors until the end."""

    async def act(number: int) -> None:
        chance = random.Random(f"{order.seed}.{order.process}.{number}")  # noqa: S311 — repeated by its seed
        actor = Actor(engine, journal, chance, lambda: time.monotonic() - period.began)
        while time.monotonic() < period.until:
            await actor.act()

    async with asyncio.TaskGroup() as actors:
        for number in range(order.actors):
            actors.create_task(act(number))


async def main(order: Order) -> None:
    """Open the store, with retries, and run the actors."""
    folder = Path(order.folder)
    clock = SharedClock(folder / "clock")
    while True:
        try:
            async with engine_of(order.store, clock) as engine:
                print("open", flush=True)  # noqa: T201 — the parent process waits for it
                period = msgspec.json.decode(await asyncio.to_thread(sys.stdin.readline), type=Period)
                journal = Journal(folder / f"{order.process}.jsonl", order.process, clock)
                await act_within(period, engine, order, journal)
                return
        except StoreUnavailable:
            await asyncio.sleep(AGAIN_SECONDS)


if __name__ == "__main__":
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Order)))
