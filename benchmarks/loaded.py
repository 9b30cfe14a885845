"""A store that holds many sessions: what a turn costs beside an empty one, and how much memory a worker takes.

::

    python -m benchmarks.loaded [--sessions 100000] [--check] [--dir FOLDER]
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import NamedTuple

import wenmai
from benchmarks import servers
from benchmarks.contenders import WINDOW
from benchmarks.http_turn import Visitor, service
from benchmarks.loading import MESSAGES, load
from benchmarks.peak import peak_mb
from benchmarks.pool import NotInstalled
from benchmarks.talk import history, talk

SESSIONS = 100_000
IN_USE = 1_000
"""Sessions that take turns; the store that is as good as empty holds no others."""
ROUNDS, TURNS = 9, 200
VISITORS = 16
SERVED = 12_000
"""Sessions whose context the worker builds: more than its local cache holds."""
CHATS = 320
LOADED_TO_EMPTY = 1.2
WORKER_MB = 300
LIMITS = wenmai.WindowLimits(messages=WINDOW, characters=None)
MEMORY_BACKED = Path("/dev/shm")  # noqa: S108 — folders of ours are made in it


class Compared(NamedTuple):
    """Milliseconds of a turn with its window, medians; and the median of the rounds' ratios."""

    empty_ms: float
    loaded_ms: float
    ratio: float


def main() -> int:
    """Measure, print, and with ``--check`` judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.loaded", description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a promise does not hold")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept; default: memory")
    arguments = parser.parse_args()
    parent = arguments.dir or (MEMORY_BACKED if MEMORY_BACKED.is_dir() else None)
    broken = list(asyncio.run(_measure(parent, arguments.sessions)))
    for each in broken if arguments.check else ():
        print(f"check: {each}", file=sys.stderr)
    return 1 if arguments.check and broken else 0


async def _measure(parent: Path | None, sessions: int) -> list[str]:
    """What does not hold, in words."""
    broken = []
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=parent))
        stores = {"SQLite": (f"sqlite:///{folder}/empty.db", f"sqlite:///{folder}/loaded.db")}
        hot = ""
        try:
            hot = stack.enter_context(servers.redis(parent))
            few, many = (stack.enter_context(servers.postgresql(parent)) for _ in range(2))
            stores["PostgreSQL"] = few, many
        except NotInstalled as missing:
            print(f"skipped: {missing}")
        for name, (empty, loaded) in stores.items():
            start = time.perf_counter()
            await load(loaded, sessions)
            took = time.perf_counter() - start
            found = await _compare(empty, loaded, sessions)
            print(
                f"{name}: {found.empty_ms:.3f} ms in an empty store, {found.loaded_ms:.3f} ms with {sessions} sessions "
                f"of {MESSAGES} messages (loaded in {took:.0f} s): ratio {found.ratio:.2f}"
            )
            if found.ratio > LOADED_TO_EMPTY:
                broken.append(f"{name}: the ratio is {found.ratio:.2f}, not {LOADED_TO_EMPTY}")
        if "PostgreSQL" in stores:
            resident = await _worker_mb(stores["PostgreSQL"][1], hot, sessions)
            print(f"a worker that served {min(SERVED, sessions)} of these sessions: {resident:.0f} MB")
            if resident > WORKER_MB:
                broken.append(f"a worker takes {resident:.0f} MB, not {WORKER_MB}")
    return broken


async def _compare(empty: str, loaded: str, sessions: int) -> Compared:
    used = random.Random(1).sample(range(1, sessions + 1), min(IN_USE, sessions))
    async with wenmai.open(empty) as few, wenmai.open(loaded) as many:
        said = [{"role": role, "content": content} for role, content in history(1, MESSAGES)]
        pair = [[await memory.session(f"loaded-{number}") for number in used] for memory in (few, many)]
        for session in pair[0]:
            await session.append(said)
        for each in pair:
            await _turns(each)
        rounds = []
        for number in range(ROUNDS):
            first = number * TURNS % len(used)
            rounds.append([await _turns(each[first : first + TURNS]) for each in pair])
    ratio = median(many_ms / few_ms for few_ms, many_ms in rounds)
    return Compared(median(few_ms for few_ms, _ in rounds), median(many_ms for _, many_ms in rounds), ratio)


async def _turns(sessions: Sequence[wenmai.SessionMemory]) -> float:
    """The median of a turn in each of these sessions, milliseconds."""
    words = talk(seed=2)
    times = []
    for session in sessions:
        question, answer = next(words)
        said = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        start = time.perf_counter()
        _, window = await session.append_and_window(said, LIMITS)
        times.append(time.perf_counter() - start)
        if len(window.messages) != WINDOW or window.messages[-1].content != answer:
            raise AssertionError(f"wrong window: {window}")
    return 1e3 * median(times)


async def _worker_mb(store: str, hot: str, sessions: int) -> float:
    """The most megabytes that a worker ever had, after it has served many of the sessions."""
    async with service("--store", store, "--hot", hot) as (port, process):
        visitors = [await Visitor.arrive(port) for _ in range(VISITORS)]
        await asyncio.gather(*(visitor.talk(CHATS // VISITORS) for visitor in visitors))
        numbers = iter(range(1, min(SERVED, sessions) + 1))
        await asyncio.gather(*(_ask_for_context(visitor, numbers) for visitor in visitors))
        resident = peak_mb(process)
        for visitor in visitors:
            visitor.leave()
    return resident


async def _ask_for_context(visitor: Visitor, numbers: Iterator[int]) -> None:
    for number in numbers:
        body: dict[str, object] = {"query": "第一条是什么？", "npc_id": "assistant"}
        answer = await visitor.post(f"/v1/sessions/loaded-{number}/context", body)
        if not answer["messages"]:
            raise AssertionError(f"no history: {answer}")


if __name__ == "__main__":
    sys.exit(main())
