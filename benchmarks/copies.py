"""What the copies in the process are worth: a window of ten messages, read through the tiers."""

import time
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.contenders import WINDOW
from benchmarks.talk import history
from wenmai.clock import system_clock
from wenmai.memory.manager import Memory
from wenmai.memory.window import WindowLimits
from wenmai.stores.registry import open_store
from wenmai.stores.tiers import open_tiers

SESSIONS = 100
READS = 2_000


async def measure(hot: str) -> float:
    """Microseconds of a read of a window, the median; in front is the Redis server at ``hot``, below a SQLite file."""
    limits = WindowLimits(messages=WINDOW, characters=None)
    with TemporaryDirectory(prefix="wenmai-bench-") as folder:
        async with (
            open_store(f"sqlite:///{folder}/below.db", clock=system_clock) as below,
            open_tiers(below, hot, clock=system_clock) as store,
        ):
            memory = Memory(store.documents, store.logs)
            sessions = [await memory.session(f"session-{number}") for number in range(SESSIONS)]
            for number, session in enumerate(sessions):
                said = [{"role": role, "content": content} for role, content in history(number, 2 * WINDOW)]
                await session.append(said)
                await session.window(limits)
            times = []
            for number in range(READS):
                start = time.perf_counter()
                window = await sessions[number % SESSIONS].window(limits)
                times.append(time.perf_counter() - start)
                if len(window.messages) != WINDOW:
                    raise AssertionError(f"wrong window: {window}")
    return 1e6 * median(times)
