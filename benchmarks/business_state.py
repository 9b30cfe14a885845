"""Times of the business state: recognition of a question, read and update.

::

    python -m benchmarks.business_state [--dir FOLDER]

CPU time per call, and wall time as the median. The file is kept in memory unless a folder is named, as those of the
other benchmarks, since what a disk takes to sync a commit differs from one to the next.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import wenmai
from wenmai import MemoryPolicy
from wenmai.business.rules import BusinessRules
from wenmai.business.understanding import Vocabulary
from wenmai.config.profile import load_profile
from wenmai.config.sources import profile_path

CALLS = 400
QUESTIONS = ("那入库呢？", "合同怎么创建？", "客户C001的押品怎么审批？", "那下一步呢？")


async def _timed(name: str, call: Callable[[int], Awaitable[object]]) -> None:
    walls, began = [], time.process_time()
    for number in range(CALLS):
        start = time.perf_counter()
        await call(number)
        walls.append(time.perf_counter() - start)
    cpu = (time.process_time() - began) / CALLS
    print(f"{name:28} CPU {cpu * 1e3:.3f} ms, wall p50 {statistics.median(walls) * 1e3:.3f} ms")


async def _sessions(url: str, rules: BusinessRules) -> None:
    store = url.partition(":")[0]
    async with wenmai.open(url, policy=MemoryPolicy(business=rules)) as memory:
        session = await memory.session()

        async def understand(number: int) -> None:
            await session.understand(QUESTIONS[number % len(QUESTIONS)])

        async def read(_number: int) -> None:
            await session.state()

        async def prefer(number: int) -> None:
            await session.prefer(interest_tags=[str(number)])

        await _timed(f"{store}: understand", understand)
        await _timed(f"{store}: read", read)
        await _timed(f"{store}: set a preference", prefer)


async def measure(parent: Path | None) -> None:
    """Print the times; those of a preference are there to compare."""
    rules = load_profile(profile_path("assistant")).business
    assert rules is not None
    vocabulary = Vocabulary(rules)

    async def recognize(number: int) -> None:
        vocabulary.understand(QUESTIONS[number % len(QUESTIONS)] + str(number))

    await _timed("recognition", recognize)
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=parent) as folder:
        for url in ("memory://", f"sqlite:///{folder}/state.db"):
            await _sessions(url, rules)


def main() -> None:
    """Measure with the file in the folder of the arguments."""
    parser = argparse.ArgumentParser(prog="benchmarks.business_state", description=__doc__.splitlines()[0])
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the file is kept; default: memory")
    memory = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it
    asyncio.run(measure(parser.parse_args().dir or (memory if memory.is_dir() else None)))


if __name__ == "__main__":
    main()
