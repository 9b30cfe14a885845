"""Four processes write to one store and are killed: the stored history is the acknowledged one."""

import asyncio
import random
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

import pytest
from crash_checker import Found, violations
from crash_victim import Victim, last_batches
from crash_writer import Acknowledged
from store_places import Place, opened

from postgres_server import PostgresServer
from redis_server import RedisServer
from wenmai import WindowLimits
from wenmai.clock import system_clock
from wenmai.memory.library import Memory
from wenmai.stores.cache.freshness import MAX_AGE

pytestmark = pytest.mark.xdist_group("services")

PROCESSES = 4
WRITERS = 16
READERS = 16
WINDOW = WindowLimits(messages=60, characters=None)


@pytest.fixture(params=["postgresql", "redis+postgresql"])
def place(request: pytest.FixtureRequest, postgres_server: PostgresServer, redis_server: RedisServer) -> Place:
    """An empty database, alone and with Redis in front of it."""
    hot = redis_server.url if request.param.startswith("redis") else ""
    return Place(postgres_server.store(), hot)


class WriterProcesses:
    """Writer processes, of which one at a time is killed and restarted.

    Attributes:
        acknowledged: the appends acknowledged to killed processes.
    """

    def __init__(self, place: Place, sessions: Sequence[str]) -> None:
        self._place = place
        self._sessions = sessions
        self._victims: list[Victim] = []
        self.acknowledged: list[list[Acknowledged]] = [[] for _ in range(PROCESSES)]

    async def begin(self) -> None:
        """Start all processes, and return when each has written."""
        self._victims = [await self._start(process) for process in range(PROCESSES)]
        for victim in self._victims:
            await victim.writing()

    async def kill_one(self) -> None:
        """``kill -9`` one that writes; another continues in its place, resending unacknowledged batches."""
        process = random.randrange(PROCESSES)  # noqa: S311 — should differ from run to run
        await self._victims[process].writing()
        self.acknowledged[process] += await self._victims[process].kill()
        self._victims[process] = await self._start(process)

    async def end(self) -> None:
        """``kill -9`` all."""
        for process, victim in enumerate(self._victims):
            self.acknowledged[process] += await victim.kill()

    def __len__(self) -> int:
        return sum(map(len, self._victims)) + sum(map(len, self.acknowledged))

    async def _start(self, process: int) -> Victim:
        latest = last_batches(self.acknowledged[process])
        begin = [latest[f"{process}.{writer}"] for writer in range(WRITERS)]
        return await Victim.start(self._place, str(process), self._sessions, begin)


async def found_in(memory: Memory, session_id: str) -> Found:
    """Transcript and window of the session."""
    session = await memory.session(session_id)
    transcript = [message async for message in session.history()]
    return Found(session_id, transcript, (await session.window(WINDOW)).messages)


def past_max_age() -> datetime:
    """A time when cache entries are stale: a killed process could not invalidate those of its last write."""
    return system_clock() + MAX_AGE


async def check(place: Place, sessions: Sequence[str], acknowledged: Sequence[Acknowledged]) -> int:
    """Check every session; return the number of messages."""
    of_session: dict[str, list[Acknowledged]] = defaultdict(list)
    for each in acknowledged:
        of_session[each.session].append(each)
    places = asyncio.Semaphore(READERS)
    async with opened(place, clock=past_max_age) as (memory, _):

        async def check_one(session_id: str) -> int:
            async with places:
                found = await found_in(memory, session_id)
            assert violations(of_session[session_id], found) == []
            return len(found.transcript)

        return sum(await asyncio.gather(*map(check_one, sessions)))


async def write_and_kill(place: Place, *, sessions: int, appends: int, kills: int, longest_life: float) -> None:
    """Write until this many acknowledgements and kills, then check everything, through the cache and without it."""
    ids = [f"session-{number}" for number in range(sessions)]
    writers = WriterProcesses(place, ids)
    await writers.begin()
    killed = 0
    while killed < kills or len(writers) < appends:
        await asyncio.sleep(random.random() * longest_life)  # noqa: S311 — the moment should differ from run to run
        await writers.kill_one()
        killed += 1
    await writers.end()
    everything = [each for one in writers.acknowledged for each in one]
    messages = await check(Place(place.store), ids, everything)
    if place.hot:
        assert await check(place, ids, everything) == messages
    print(f"{len(everything)} acknowledgements, {killed} kills, {messages} messages")  # noqa: T201 — of the long form


async def test_kills_under_load_lose_duplicate_and_split_nothing(place: Place) -> None:
    """Four processes with 16 writers each, 100 sessions of which one is hot, 5 kills."""
    await write_and_kill(place, sessions=100, appends=1_500, kills=5, longest_life=0.4)


@pytest.mark.soak
async def test_200_kills_in_100_000_appends_lose_duplicate_and_split_nothing(place: Place) -> None:
    """The same, longer, in 1 000 sessions."""
    await write_and_kill(place, sessions=1_000, appends=100_000, kills=200, longest_life=0.6)
