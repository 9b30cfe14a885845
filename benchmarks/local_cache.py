"""The local cache: reading a window of ten messages from it."""

import time
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.contenders import WINDOW
from benchmarks.talk import history
from wenmai.clock import system_clock
from wenmai.memory.library import Memory
from wenmai.memory.window import WindowLimits
from wenmai.stores.cache import open_cache
from wenmai.stores.opening import open_store

SESSIONS = 100
READS = 2_000


async def measure(redis_url: str) -> float:
    """Median time of reading a window in microseconds; the cache is in front of a SQLite file."""
    limits = WindowLimits(messages=WINDOW, characters=None)
    with TemporaryDirectory(prefix="wenmai-bench-") as folder:
        async with (
            open_store(f"sqlite:///{folder}/durable.db", clock=system_clock) as durable,
            open_cache(durable, redis_url, clock=system_clock) as store,
        ):
            memory = Memory(store.documents, store.logs)
            sessions = [await memory.session(f"session-{number}") for number in range(SESSIONS)]
            for number, session in enumerate(sessions):
                messages = [{"role": role, "content": content} for role, content in history(number, 2 * WINDOW)]
                await session.append(messages)
                await session.window(limits)
            times = []
            for number in range(READS):
                start = time.perf_counter()
                window = await sessions[number % SESSIONS].window(limits)
                times.append(time.perf_counter() - start)
                if len(window.messages) != WINDOW:
                    raise AssertionError(f"wrong window: {window}")
    return 1e6 * median(times)
