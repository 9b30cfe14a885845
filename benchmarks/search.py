"""Search by words, by vectors and by both among 1 000, 10 000 and 100 000 entries; SQLite and PostgreSQL.

::

    python -m benchmarks.search [--sizes 1000 10000] [--dir FOLDER]
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks import servers
from benchmarks.pool import NotInstalled
from benchmarks.results import Searched
from wenmai.clock import system_clock
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.opening import open_store
from wenmai.stores.structs import SearchEntry, SearchQuery

SIZES = (1_000, 10_000, 100_000)
QUICK_SIZES = SIZES[:2]
ROUNDS = 12
BATCH = 1_000
VOCABULARY, WORDS, ASKED = 20_000, 24, 6
"""Different words, words of an entry and words of a query."""
DIMENSION = 32
LIMIT = 10


class Corpus:
    """Texts of Chinese and Latin words, few of them frequent and most rare, and vectors; the same each time."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(0)
        self._words = [_word(chance, latin=bool(number % 2)) for number in range(VOCABULARY)]
        self._weights = list(accumulate(1 / (rank + 3) for rank in range(VOCABULARY)))
        self._chance = random.Random(seed)

    def text(self, words: int) -> str:
        """So many words."""
        return "".join(self._chance.choices(self._words, cum_weights=self._weights, k=words))

    def vector(self) -> list[float]:
        """In any direction."""
        return [self._chance.gauss(0, 1) for _ in range(DIMENSION)]

    def entries(self, first: int, count: int) -> list[SearchEntry]:
        """The next ones."""
        return [
            SearchEntry(id=f"entry-{number}", text=self.text(WORDS), vector=self.vector())
            for number in range(first, first + count)
        ]


def _word(chance: random.Random, *, latin: bool) -> str:
    if latin:
        return f" {''.join(chance.choices('abcdefghijklmnoprstuvw', k=chance.randint(3, 9)))} "
    return "".join(chr(0x4E00 + chance.randrange(3_000)) for _ in range(chance.choice((1, 2, 2, 3))))


async def measure(url: str, sizes: Sequence[int]) -> dict[int, Searched]:
    """Make a collection of each size in the store at ``url`` and ask them in turn."""
    async with open_store(url, clock=system_clock) as store:
        search = store.search
        if search is None:
            raise AssertionError(f"no search: {url}")
        for size in sizes:
            corpus = Corpus(seed=1)
            for first in range(0, size, BATCH):
                await search.index(Scope(), str(size), corpus.entries(first, min(BATCH, size - first)))
        await _ask(search, sizes)
        return await _ask(search, sizes)


async def _ask(search: Search, sizes: Sequence[int]) -> dict[int, Searched]:
    kinds: tuple[Callable[[str, list[float]], dict[str, Any]], ...] = (
        lambda text, _: {"text": text},
        lambda _, vector: {"vector": vector},
        lambda text, vector: {"text": text, "vector": vector},
    )
    times: dict[tuple[int, int], list[float]] = {}
    corpus = Corpus(seed=2)
    for _ in range(ROUNDS):
        text, vector = corpus.text(ASKED), corpus.vector()
        for size in sizes:
            for number, asked in enumerate(kinds):
                start = time.perf_counter()
                [hits] = await search.query(Scope(), str(size), [SearchQuery(limit=LIMIT, **asked(text, vector))])
                times.setdefault((size, number), []).append(1e3 * (time.perf_counter() - start))
                if not hits:
                    raise AssertionError(f"nothing found: {text}")
    return {size: Searched(*(median(times[size, number]) for number in range(len(kinds)))) for size in sizes}


def measure_all(parent: Path | None, sizes: Sequence[int], skipped: dict[str, str]) -> dict[str, dict[int, Searched]]:
    """The stores that search, by name; what is not installed is noted as skipped."""
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=parent) as folder:
        found = {"SQLite": asyncio.run(measure(f"sqlite:///{folder}/search.db", sizes))}
    try:
        with servers.postgresql(parent) as url:
            found["PostgreSQL"] = asyncio.run(measure(url, sizes))
    except NotInstalled as missing:
        skipped["search on PostgreSQL"] = str(missing)
    return found


def rows(found: Mapping[str, Mapping[int, Searched]]) -> Iterator[list[str]]:
    """A table: a row for each store and size."""
    yield ["", "entries", "words", "vectors", "words and vectors"]
    for name, sizes in found.items():
        for size, times in sizes.items():
            yield [name, f"{size:,}".replace(",", " "), *(f"{each:.1f}" for each in times)]


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(prog="benchmarks.search", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept; default: memory")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it
    skipped: dict[str, str] = {}
    found = measure_all(arguments.dir or (memory if memory.is_dir() else None), arguments.sizes, skipped)
    for row in rows(found):
        print("  ".join(f"{each:>17}" for each in row))
    for what, why in skipped.items():
        print(f"skipped: {what}: {why}")


if __name__ == "__main__":
    main()
