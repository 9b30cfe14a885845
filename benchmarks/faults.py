"""The cost of a turn when the Redis cache in front of PostgreSQL fails and its breaker is open, beside a healthy one.

::

    python -m benchmarks.faults [--turns 2000] [--check] [--dir FOLDER]

Four cached stores over one PostgreSQL take turns in this process, one turn each in rotation, so that other load on the
machine affects all of them. A turn does what a chat service does: store the question with an open answer, read the
window, complete the answer.
"""

import argparse
import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from benchmarks import servers
from benchmarks.contenders import WINDOW
from benchmarks.pool import NotInstalled
from benchmarks.talk import history, talk
from wenmai.clock import system_clock
from wenmai.memory.history import ASSISTANT
from wenmai.memory.library import Memory
from wenmai.memory.window import WindowLimits
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache import CachedStore, open_cache
from wenmai.stores.opening import open_store

HEALTHY = "healthy"
FAULTS = ("refused", "hung", "slow")
TURNS, WARM_UP = 2_000, 100
SESSIONS = 100
DELAY_SECONDS = 0.3
"""Of each reply of the slow server: within the command timeout, so only the limit for slow calls opens the breaker."""

P99_TO_HEALTHY = 1.5
LIMITS = WindowLimits(messages=WINDOW, characters=None)
MEMORY_BACKED = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it


class Contender(NamedTuple):
    """A cached store, and its sessions."""

    store: CachedStore
    memory: Memory


class Server:
    """A proxy between a store and Redis that can fail.

    Args:
        behind: the port of the real server.

    Attributes:
        accepted: connections so far.
    """

    def __init__(self, behind: int) -> None:
        self.accepted = 0
        self._behind = behind
        self._fault = HEALTHY
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._pumps: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[int]:
        """Listen on the port that is yielded, for as long as the context lasts."""
        self._server = await asyncio.start_server(self._serve, servers.HOST, 0)
        try:
            yield self._server.sockets[0].getsockname()[1]
        finally:
            self.fail("refused")
            await asyncio.gather(*self._pumps, return_exceptions=True)

    def fail(self, fault: str) -> None:
        """Be ``hung``, ``slow`` or ``refused`` from now on."""
        self._fault = fault
        if fault == "refused" and self._server is not None:
            self._server.close()
            for writer in self._writers:
                writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        answers, requests = await asyncio.open_connection(servers.HOST, self._behind)
        self._writers |= {writer, requests}
        for source, target, delay in ((reader, requests, 0.0), (answers, writer, DELAY_SECONDS)):
            pump = asyncio.create_task(self._pump(source, target, delay))
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
        try:
            while data := await reader.read(65_536):
                if self._fault == "slow":
                    await asyncio.sleep(delay)
                if self._fault != "hung":
                    writer.write(data)
                    await writer.drain()
        except ConnectionError:
            return
        finally:
            writer.transport.abort()


def main() -> int:
    """Measure, print, and with ``--check`` compare with the limits."""
    parser = argparse.ArgumentParser(prog="benchmarks.faults", description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=TURNS, help="of each store")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a limit is exceeded")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept; default: memory")
    arguments = parser.parse_args()
    parent = arguments.dir or (MEMORY_BACKED if MEMORY_BACKED.is_dir() else None)
    try:
        with servers.postgresql(parent) as store, servers.redis(parent) as redis_url:
            exceeded = asyncio.run(_measure(store, redis_url, arguments.turns))
    except NotInstalled as missing:
        print(f"skipped: {missing}")
        return 0
    for each in exceeded if arguments.check else ():
        print(f"check: {each}", file=sys.stderr)
    return 1 if arguments.check and exceeded else 0


async def _measure(url: str, redis_url: str, turns: int) -> list[str]:
    """Measure; returns the exceeded limits, in words."""
    port = urlsplit(redis_url).port
    assert port is not None
    async with AsyncExitStack() as stack:
        between = {name: Server(port) for name in FAULTS}
        contenders = {HEALTHY: await stack.enter_async_context(_opened(url, redis_url, HEALTHY))}
        for name, server in between.items():
            port = await stack.enter_async_context(server.listening())
            opened = _opened(url, f"redis://{servers.HOST}:{port}/0", name)
            contenders[name] = await stack.enter_async_context(opened)
        for name, server in between.items():
            server.fail(name)
        await _turns(contenders, WARM_UP)
        states = {name: contender.store.breaker.status.state for name, contender in contenders.items()}
        if states != {HEALTHY: "closed"} | dict.fromkeys(FAULTS, "open"):
            raise AssertionError(f"unexpected after the warm-up: {states}")
        accepted = {name: server.accepted for name, server in between.items()}
        times = {name: sorted(took) for name, took in (await _turns(contenders, turns)).items()}
        tried = {name: server.accepted - accepted[name] for name, server in between.items()}
        print(f"connections while measured: {tried}")
    return list(_exceeded(times))


def _exceeded(times: dict[str, list[float]]) -> list[str]:
    """Print the figures; returns the exceeded limits."""
    exceeded = []
    p50, p99 = ({name: 1e3 * took[int(share * len(took))] for name, took in times.items()} for share in (0.5, 0.99))
    for name in times:
        ratios = p50[name] / p50[HEALTHY], p99[name] / p99[HEALTHY]
        print(f"{name:8} p50 {p50[name]:.2f} ms ({ratios[0]:.2f}×), p99 {p99[name]:.2f} ms ({ratios[1]:.2f}×)")
        if ratios[1] > P99_TO_HEALTHY:
            exceeded.append(f"{name}: p99 is {ratios[1]:.2f} times that with a healthy Redis, not {P99_TO_HEALTHY}")
    return exceeded


@asynccontextmanager
async def _opened(url: str, redis_url: str, name: str) -> AsyncIterator[Contender]:
    async with open_store(url) as durable, open_cache(durable, redis_url, clock=system_clock) as store:
        memory = Memory(store.documents, store.logs)
        for number in range(SESSIONS):
            session = await memory.session(f"{name}-{number}")
            messages = [{"role": role, "content": content} for role, content in history(number, 2 * WINDOW)]
            await session.append(messages)
        yield Contender(store, memory)


async def _turns(contenders: dict[str, Contender], turns: int) -> dict[str, list[float]]:
    """The seconds of each turn, by store."""
    times = defaultdict(list)
    words = talk(seed=3)
    for number in range(turns):
        question, answer = next(words)
        for name, contender in contenders.items():
            start = time.perf_counter()
            await _turn(contender, f"{name}-{number % SESSIONS}", question, answer)
            times[name].append(time.perf_counter() - start)
    return times


async def _turn(contender: Contender, session_id: str, question: str, answer: str) -> None:
    session = await contender.memory.session(session_id)
    unfinished = {"role": "assistant", "content": "", "completed": False}
    stored = await session.append([{"role": "user", "content": question}, unfinished])
    window = await session.window(LIMITS)
    thread = ThreadKey(session_id, ASSISTANT)
    filled = await contender.store.logs.complete(Scope(), thread, stored[1], content=answer)
    if len(window.messages) != WINDOW or filled is None:
        raise AssertionError(f"wrong turn: {window}, {filled}")


if __name__ == "__main__":
    sys.exit(main())
