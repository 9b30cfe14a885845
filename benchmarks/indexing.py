"""Writes to a search index while it grows: adding, replacing and removing entries on SQLite and PostgreSQL.

::

    python -m benchmarks.indexing [--sizes 0 10000 50000] [--stores SQLite PostgreSQL]

Milliseconds an entry, of the clock and of this process's CPU, which for PostgreSQL leaves out the server's. If they
grew with the index, a long memory would be ever slower to write.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from benchmarks.recall import STORES, store_urls
from benchmarks.search import Corpus
from wenmai.clock import system_clock
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.opening import open_store
from wenmai.stores.structs import SearchEntry

SIZES = (0, 10_000, 50_000)
WORDS, WRITTEN, LOADED = 48, 200, 500
"""Of an entry; entries that are measured; entries of a call that fills the index."""


class Writes:
    """Writes to one collection, which are timed."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._corpus = Corpus(seed=1)
        self.size = 0

    async def fill(self, size: int) -> None:
        """Add entries up to this number."""
        while self.size < size:
            await self._add(min(LOADED, size - self.size), 1)

    async def timed(self) -> dict[str, tuple[float, float]]:
        """The milliseconds an entry, by the clock and of CPU, of each kind of write."""
        first = self.size
        ids = [f"{number}" for number in range(first, first + WRITTEN)]
        return {
            "one a call": await _timed(lambda: self._add(1, WRITTEN)),
            "100 a call": await _timed(lambda: self._add(100, WRITTEN // 100)),
            "replacing one": await _timed(lambda: self._replace(first)),
            "removing one": await _timed(lambda: self._remove([[id_] for id_ in ids])),
        }

    async def _add(self, batch: int, calls: int) -> None:
        for _ in range(calls):
            await self._search.index(Scope(), "c", self._entries(self.size, batch))
            self.size += batch

    async def _replace(self, first: int) -> None:
        for number in range(first, first + WRITTEN):
            await self._search.index(Scope(), "c", self._entries(number, 1))

    async def _remove(self, calls: Sequence[Sequence[str]]) -> None:
        for ids in calls:
            await self._search.remove(Scope(), "c", ids)

    def _entries(self, first: int, count: int) -> list[SearchEntry]:
        numbers = range(first, first + count)
        return [SearchEntry(id=f"{n}", text=self._corpus.text(WORDS), fields={"session": n // 200}) for n in numbers]


async def _timed(work: Callable[[], Awaitable[None]]) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    await work()
    return 1e3 * (time.perf_counter() - wall) / WRITTEN, 1e3 * (time.process_time() - cpu) / WRITTEN


async def measure(name: str, url: str, sizes: Sequence[int]) -> None:
    """Print a line for each size of the index in the store at ``url``."""
    async with open_store(url, clock=system_clock) as store:
        if store.search is None:
            raise AssertionError(f"no search: {url}")
        writes = Writes(store.search)
        for size in sizes:
            await writes.fill(size)
            found = await writes.timed()
            texts = (f"{kind} {wall:5.2f} ({cpu:.2f})" for kind, (wall, cpu) in found.items())
            print(f"{name}, {size} entries".ljust(28), *texts, sep="  ")


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(prog="benchmarks.indexing", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it
    with ExitStack() as resources:
        for name, url in store_urls(arguments.stores, memory if memory.is_dir() else None, resources):
            asyncio.run(measure(name, url, arguments.sizes))


if __name__ == "__main__":
    main()
