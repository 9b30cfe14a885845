"""Recall beside the embedding itself: one user's 10 000 and 100 000 messages, by words alone and with vectors.

::

    python -m benchmarks.recall [--sizes 10000 100000] [--stores SQLite PostgreSQL] [--kinds words vectors]

Vectors have 384 dimensions and are at hand, so that the embedder's own time is left out. Figures are of one question at
a time: the median, the 95th percentile, and the CPU of this process, which for PostgreSQL leaves out the server's; and
of indexing, per message. 100 000 messages take some minutes.
"""

import argparse
import asyncio
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import NamedTuple
from zlib import crc32

from benchmarks import servers
from benchmarks.pool import NotInstalled
from benchmarks.search import Corpus
from wenmai.clock import system_clock
from wenmai.memory.library import Memory, required
from wenmai.memory.recalled_items import RecallQuery
from wenmai.scope import Scope
from wenmai.stores.opening import open_store
from wenmai.stores.records import NewMessage

SIZES = (10_000, 100_000)
STORES = ("SQLite", "PostgreSQL")
SESSION = 200
"""Messages of a session."""

WORDS, ASKED = 24, 7
"""Of a message, and of a question, of which half come from one message."""

QUESTIONS = 40
DIMENSION = 384


KINDS = {"words": False, "vectors": True}

_CHANCE = random.Random(1)
_NUMBERS = [_CHANCE.gauss(0, 1) for _ in range(500_000)]


class Figures(NamedTuple):
    """Milliseconds of a recall, and CPU of indexing a message."""

    p50: float
    p95: float
    cpu: float
    indexing: float = 0.0


class HandyVectors:
    """An embedder without costs: a text's vector is made of its checksum."""

    name = "benchmark"

    async def embed_query(self, text: str) -> list[float]:
        """The vector of a question."""
        return _vector(text)

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """The vectors of passages."""
        return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    """A part of one long row of random numbers, since making new ones takes longer than indexing."""
    begin = crc32(text.encode()) % (len(_NUMBERS) - DIMENSION)
    return _NUMBERS[begin : begin + DIMENSION]


async def measure(url: str, size: int, *, vectors: bool) -> Figures:
    """Write so many messages of one user to the store at ``url``, index them, and ask."""
    async with open_store(url, clock=system_clock) as store:
        documents, logs = required(store, url)
        embedder = HandyVectors() if vectors else None
        memory = Memory(documents, logs, search=store.search, embedder=embedder)
        scope = Scope(user_id=f"user-{size}-{vectors}")
        texts = await _write(memory, scope, size)
        began = time.process_time()
        memory.derived.start()
        await memory.derived.sweep()
        await memory.derived.catch_up()
        indexing = 1e3 * (time.process_time() - began) / size
        indexed = await memory.recalls.size(scope)
        if (indexed.entries, indexed.vectors) != (size, size if vectors else 0):
            raise AssertionError(f"not all is indexed: {indexed}")
        questions = _questions(texts)
        await _ask(memory, scope, questions[:5])
        figures = await _ask(memory, scope, questions)
        await memory.derived.stop(1)
        return figures._replace(indexing=indexing)


async def _write(memory: Memory, scope: Scope, size: int) -> list[str]:
    corpus, texts = Corpus(seed=3), []
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for first in range(0, size, SESSION):
        session = await memory.session(f"{scope.user_id}-{first:06}", scope=scope)
        own = [corpus.text(WORDS) for _ in range(min(SESSION, size - first))]
        messages = [
            NewMessage(
                role="assistant" if number % 2 else "user",
                content=text,
                timestamp=start + timedelta(minutes=first + number),
            )
            for number, text in enumerate(own)
        ]
        await session.append(messages)
        texts += own
    return texts


def _questions(texts: Sequence[str]) -> list[str]:
    chance, corpus = random.Random(4), Corpus(seed=5)
    asked = []
    for _ in range(QUESTIONS):
        text = chance.choice(texts)
        begin = chance.randrange(len(text) // 2)
        asked.append(text[begin : begin + 4 * ASKED] + corpus.text(ASKED // 2))
    return asked


async def _ask(memory: Memory, scope: Scope, questions: Sequence[str]) -> Figures:
    times = []
    cpu = time.process_time()
    for question in questions:
        began = time.perf_counter()
        found = await memory.recalls.recall(scope, RecallQuery(query=question))
        times.append(1e3 * (time.perf_counter() - began))
        if not found:
            raise AssertionError(f"nothing found: {question}")
    cpu = 1e3 * (time.process_time() - cpu) / len(questions)
    return Figures(median(times), sorted(times)[int(0.95 * len(times))], cpu)


def store_urls(stores: Sequence[str], parent: Path | None, resources: ExitStack) -> Iterator[tuple[str, str]]:
    """The stores by name; those that are not installed are left out, and printed."""
    for name in stores:
        if name == "SQLite":
            folder = resources.enter_context(tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=parent))
            yield name, f"sqlite:///{folder}/recall.db"
            continue
        try:
            yield name, resources.enter_context(servers.postgresql(parent))
        except NotInstalled as missing:
            print(f"skipped: {name}: {missing}")


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(prog="benchmarks.recall", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--stores", nargs="+", choices=STORES, default=STORES)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept; default: memory")
    arguments = parser.parse_args()
    memory = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it
    parent = arguments.dir or (memory if memory.is_dir() else None)
    with ExitStack() as resources:
        for name, url in store_urls(arguments.stores, parent, resources):
            for size in arguments.sizes:
                for vectors in map(KINDS.__getitem__, arguments.kinds):
                    found = asyncio.run(measure(url, size, vectors=vectors))
                    what = f"{name}, {size} messages, {'words and vectors' if vectors else 'words alone'}"
                    asked = f"p50 {found.p50:6.1f} ms, p95 {found.p95:6.1f} ms, CPU {found.cpu:6.1f} ms"
                    print(f"{what:50} {asked}, indexing {found.indexing:.2f} ms of CPU")


if __name__ == "__main__":
    main()
