"""Runs a random history: starts and kills processes, cuts connections, advances the clock, reads the final state."""

import asyncio
import os
import random
import time
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL

import msgspec
from history_actor import KEYS_A_SECOND, ask_key
from history_calls import Calls
from history_events import LIFETIME, NAMES, USERS, Event, Journal, SharedClock, events_in
from history_model import CACHE_MAX_AGE, FINAL_READER, HistoryModel
from history_worker import Order, Period, engine_of
from program import Program, output_of

from fault_proxy import Fault, FaultProxy

WORKER = Path(__file__).with_name("history_worker.py")
CUTS: tuple[Fault, ...] = ("refuse", "reset", "half_close", "hang")
HEALTHY_LAG = 5.0
"""Seconds in which an invalidation reaches every connected process, on a busy machine."""

STEP_SECONDS = 0.05
SPEEDS = (5.0, 80.0)
"""Speeds of the clock: slow, so that cache entries are fresh for some time, or fast."""

EXPIRIES, CUT_OFF, KILLED = 0.02, 0.06, 0.06
"""Probabilities per step: all sessions expire, a connection is cut, a process is killed."""

KEYS_READ = 12
OTHERS_READ = 20
"""How many sessions with generated ids are read."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of a history.

    Attributes:
        store: the settings with which its processes open the store.
        direct: the same without proxies, for the final reads.
        proxies: with connections to cut; empty for none.
        kills: how many processes may be killed.
    """

    seed: int
    folder: Path
    store: dict[str, str]
    direct: dict[str, str]
    proxies: Sequence[FaultProxy] = ()
    processes: int = 2
    actors: int = 4
    seconds: float = 2.5
    kills: int = 1

    def but(self, **changes: object) -> "Run":
        """The same with other values."""
        return msgspec.structs.replace(self, **changes)

    @property
    def cached(self) -> bool:
        """Whether a cache is in front of the store."""
        return "hot" in self.store


class _Disturbances:
    """Injects faults into the processes."""

    def __init__(self, run: Run, clock: SharedClock) -> None:
        self._run = run
        self._clock = clock
        self._chance = random.Random(f"{run.seed}")  # noqa: S311 — repeated by its seed
        self._started: list[_Process] = []

    async def play(self) -> None:
        """Run to the end; if several are killed, a spare process is kept ready."""
        run = self._run
        try:
            ready = await asyncio.gather(*(self._start() for _ in range(run.processes + (run.kills > 1))))
            period = Period(time.monotonic(), time.monotonic() + run.seconds)
            for process in ready[: run.processes]:
                await process.begin(period)
            await self._disturb_until(period, list(ready[: run.processes]), list(ready[run.processes :]))
            async with asyncio.timeout(60):
                for process in self._started:
                    await process.ended()
        finally:
            for process in self._started:
                await process.kill()

    async def _disturb_until(self, period: Period, playing: list["_Process"], spare: list["_Process"]) -> None:
        kills, speed = self._run.kills, self._chance.choice(SPEEDS)
        starting: asyncio.Task[_Process] | None = None
        while time.monotonic() < period.until:
            await asyncio.sleep(self._chance.random() * 2 * STEP_SECONDS)
            self._clock.advance(LIFETIME if self._chance.random() < EXPIRIES else speed * STEP_SECONDS)
            if self._run.proxies and self._chance.random() < CUT_OFF:
                await self._cut()
            if starting is not None and starting.done():
                spare.append(starting.result())
                starting = None
            if kills and len(playing) + len(spare) > 1 and self._chance.random() < KILLED:
                kills -= 1
                await playing.pop(self._chance.randrange(len(playing))).kill()
                if spare:
                    playing.append(spare.pop())
                    await playing[-1].begin(period)
                if kills and starting is None:
                    starting = asyncio.create_task(self._start())
        for process in [*spare, *([await starting] if starting else [])]:
            await process.kill()

    async def _start(self) -> "_Process":
        order = Order(
            store=self._run.store,
            folder=str(self._run.folder),
            process=f"p{len(self._started)}",
            seed=str(self._run.seed),
            actors=self._run.actors,
        )
        process = _Process(self._run.folder / f"{order.process}.log")
        self._started.append(process)
        await process.start(order)
        return process

    async def _cut(self) -> None:
        proxy = self._chance.choice(self._run.proxies)
        await proxy.break_with(self._chance.choice(CUTS))
        await asyncio.sleep(self._chance.random() * 0.2)
        await proxy.heal()


class _Process:
    """A worker process, with a log file."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._program: Program | None = None
        self._typed = -1

    async def start(self, order: Order) -> None:
        """Start it, and return when it has opened the store."""
        stdin, self._typed = os.pipe()
        with self._log.open("wb") as log, open(stdin, "rb") as typed:  # noqa: ASYNC230, PTH123 — a pipe
            self._program, output = await output_of(
                [str(WORKER), msgspec.json.encode(order).decode()], stdin=typed.fileno(), stderr=log.fileno()
            )
        assert await output.readline(), self._log.read_text()

    async def begin(self, period: Period) -> None:
        """Start its actors."""
        os.write(self._typed, msgspec.json.encode(period) + b"\n")

    async def ended(self) -> None:
        """Wait until it has ended, normally or killed."""
        assert self._program is not None
        assert await asyncio.to_thread(self._program.wait) in (0, -SIGKILL), self._log.read_text()

    async def kill(self) -> None:
        """``kill -9``, and wait for its end; nothing if it has ended."""
        if self._program is not None:
            self._program.kill()
            await asyncio.to_thread(self._program.wait)
        if self._typed != -1:
            os.close(self._typed)
            self._typed = -1


async def history_of(run: Run) -> list[Event]:
    """The history, with final reads after all processes have ended: of the store alone, and through its cache."""
    clock = SharedClock(run.folder / "clock")
    await _Disturbances(run, clock).play()
    clock.advance(CACHE_MAX_AGE)
    journal = Journal(run.folder / f"{FINAL_READER}.jsonl", FINAL_READER, clock)
    names = _names(events_in(run.folder.glob("*.jsonl")))
    for settings in ({"store": run.direct["store"]}, *([run.direct] if run.cached else [])):
        async with engine_of(settings, clock) as engine:
            await read_the_end(Calls(engine, journal), names, run)
    return events_in(run.folder.glob("*.jsonl"))


def model_of(run: Run, events: Sequence[Event]) -> HistoryModel:
    """The model of the history."""
    lag = CACHE_MAX_AGE if run.proxies else HEALTHY_LAG
    return HistoryModel(events, lag=lag if run.cached else 0.0)


async def read_the_end(calls: Calls, names: Sequence[tuple[str, str]], run: Run) -> None:
    """Read every session, and repeat the newest keys."""
    for user, name in names:
        await calls.read_everything(user, name)
    newest = int(run.seconds * KEYS_A_SECOND)
    for number in range(max(0, newest - KEYS_READ), newest):
        await ask_key(calls, number)


def _names(events: Sequence[Event]) -> list[tuple[str, str]]:
    """The shared names for all users, and the newest generated ones with their users."""
    given = {(event.user, event.got): None for event in events if event.got}
    given |= {(event.user, event.answer[0]): None for event in events if event.answer is not None}
    own = [(user, name) for user, name in given if name not in NAMES]
    return [*((user, name) for user in USERS for name in NAMES), *own[-OTHERS_READ:]]
