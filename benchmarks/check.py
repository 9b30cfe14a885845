"""What must hold on any machine: ratios within one run, and sizes, which no neighbour's load changes."""

from collections.abc import Iterator

from benchmarks.contenders import (
    ASYNCPG,
    FLOOR,
    REDIS_PY,
    SHARED_FLOOR,
    WENMAI,
    WENMAI_ON_POSTGRESQL,
    WENMAI_ON_REDIS,
)
from benchmarks.results import CROWD, LENGTHS, ONE_OF_MANY, SLOW_DISK, SLOW_DISK_CROWD, Results, length_cell

P50_TO_FLOOR = 3.0
"""0.06 ms where the floor takes 0.02."""
LONG_TO_SHORT = 1.1
CROWD_TO_FLOOR = 0.43
"""15 000 turns/s where the floor with shared commits makes 35 000."""
SLOW_DISK_TO_FLOOR = 1.12
SLOW_DISK_CROWD_TO_FLOOR = 0.48
"""7 000 turns/s of 14 500."""
ON_SERVERS = (
    (WENMAI_ON_POSTGRESQL, ASYNCPG, 2.3, 0.53),
    (WENMAI_ON_REDIS, REDIS_PY, 1.6, 0.67),
)
"""At most so many times the driver's p50, and at least such a share of its turns: 0.30 ms and 5 000 turns/s where bare
asyncpg takes 0.13 ms and makes 9 500; 0.25 ms and 5 000 where redis-py takes 0.16 ms and makes 7 500."""
SEARCHED, WORDS_TO_VECTORS = 10_000, 5
"""Among so many entries and more on SQLite: a query by six words to one by a vector, which all are compared with."""
LOCAL_CACHE_MICROS = 30
BYTES_PER_MESSAGE = 600
RESIDENT_MB = 40


def failures(results: Results) -> Iterator[str]:
    """What does not hold, in words."""
    for label, what, above, below, most in _ratios(results):
        ratio = results.ratio(what, above, below)
        if ratio > most:
            names = f"{above[1]} ({above[0]}) to {below[1]} ({below[0]})"
            yield f"the ratio in {label} of {names} is {ratio:.2f}, not {most:.2f}"
    for cell, contenders in results.slices.items():
        for own in (WENMAI, WENMAI_ON_POSTGRESQL, WENMAI_ON_REDIS):
            if any(each.kept != 1 for each in contenders.get(own, ())):
                yield f"{own} lost messages: {cell}"
    if results.local_cache_micros is not None and results.local_cache_micros > LOCAL_CACHE_MICROS:
        yield f"a window from the local cache takes {results.local_cache_micros:.0f} µs, not {LOCAL_CACHE_MICROS}"
    yield from _slow_searches(results)
    if results.bytes_per_message[WENMAI] > BYTES_PER_MESSAGE:
        yield f"a message takes {results.bytes_per_message[WENMAI]:.0f} bytes, not {BYTES_PER_MESSAGE}"
    if results.imports["wenmai"][1] > RESIDENT_MB:
        yield f"import wenmai takes {results.imports['wenmai'][1]:.0f} MB, not {RESIDENT_MB}"


def _slow_searches(results: Results) -> Iterator[str]:
    for size, took in results.search["SQLite"].items():
        ratio = took.words_ms / took.vectors_ms
        if size >= SEARCHED and ratio > WORDS_TO_VECTORS:
            yield f"a search of {size} entries by words takes {ratio:.1f} times one by vectors, not {WORDS_TO_VECTORS}"


def _ratios(results: Results) -> Iterator[tuple[str, str, tuple[str, str], tuple[str, str], float]]:
    """Label, field, what is divided by what, each by cell and contender, and the most that it may be."""
    short, long = (length_cell(length).name for length in (LENGTHS[0], LENGTHS[-1]))
    yield "p50", "p50_ms", (short, WENMAI), (short, FLOOR), P50_TO_FLOOR
    yield "p50", "p50_ms", (ONE_OF_MANY.name, WENMAI), (ONE_OF_MANY.name, FLOOR), P50_TO_FLOOR
    yield "p50", "p50_ms", (long, WENMAI), (short, WENMAI), LONG_TO_SHORT
    yield "turns/s", "per_second", (CROWD.name, SHARED_FLOOR), (CROWD.name, WENMAI), 1 / CROWD_TO_FLOOR
    if results.has(SLOW_DISK.name, WENMAI):
        slow, crowd = SLOW_DISK.name, SLOW_DISK_CROWD.name
        yield "p50", "p50_ms", (slow, WENMAI), (slow, FLOOR), SLOW_DISK_TO_FLOOR
        yield "turns/s", "per_second", (crowd, SHARED_FLOOR), (crowd, WENMAI), 1 / SLOW_DISK_CROWD_TO_FLOOR
    for own, floor, p50, share in ON_SERVERS:
        if results.has(CROWD.name, own):
            yield "p50", "p50_ms", (ONE_OF_MANY.name, own), (ONE_OF_MANY.name, floor), p50
            yield "turns/s", "per_second", (CROWD.name, floor), (CROWD.name, own), 1 / share
