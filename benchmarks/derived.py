"""The cost of derived memory: turns over HTTP on SQLite with summaries and episodes, and without, alternating.

::

    python -m benchmarks.derived [--turns 800] [--rounds 4]

Both are real servers with the offline model; the one without never registers the two derived functions. Figures are
medians over the rounds.
"""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.http_turn import WARM_UP, Visitor, ask_all, service

SETTLE_SECONDS = 2.0
"""After the last answer, so that the background work of all turns is counted."""

VISITORS = 16
LEFT_OUT = ("summaries", "episodes")
"""How the names of the derived functions begin that the server without them leaves out."""

WITHOUT = "without"
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """One server's figures: the median turn, and CPU per turn of the process and of the thread that writes."""

    p50_ms: float
    cpu_ms: float
    writer_ms: float


async def measure(turns: int, *, derived: bool) -> Round:
    """So many turns of sixteen visitors at once, in a new store."""
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-") as folder:
        program = () if derived else ("benchmarks.derived", WITHOUT)
        async with service("--store", f"sqlite:///{Path(folder) / 'http.db'}", program=program) as (port, process):
            visitors = [await Visitor.arrive(port) for _ in range(VISITORS)]
            await ask_all(visitors, WARM_UP)
            await asyncio.sleep(SETTLE_SECONDS)
            before = _cpu(process)
            times = sorted(await ask_all(visitors, turns))
            await asyncio.sleep(SETTLE_SECONDS)
            after = _cpu(process)
            for visitor in visitors:
                visitor.leave()
    cpu = {thread: 1e3 * (after[thread] - before.get(thread, 0.0)) / turns for thread in after}
    return Round(1e3 * times[len(times) // 2], sum(cpu.values()), max(_but_the_first(cpu)))


def _cpu(process: int) -> dict[int, float]:
    """Seconds of each thread, ascending; the first is the event loop's."""
    seconds = {}
    for path in sorted(Path(f"/proc/{process}/task").iterdir(), key=lambda path: int(path.name)):
        fields = (path / "stat").read_text().rsplit(")", 1)[1].split()
        seconds[int(path.name)] = (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND
    return seconds


def _but_the_first(cpu: dict[int, float]) -> list[float]:
    return list(cpu.values())[1:]


async def _alternate(turns: int, rounds: int) -> tuple[list[Round], list[Round]]:
    on, off = [], []
    for _ in range(rounds):
        off.append(await measure(turns, derived=False))
        on.append(await measure(turns, derived=True))
    return on, off


def serve_without(arguments: list[str]) -> None:
    """``wenmai`` with these arguments, without summaries and episodes."""
    from wenmai.cli.main import main as wenmai  # noqa: PLC0415 — only this process needs it
    from wenmai.memory.derived import DerivedMemory  # noqa: PLC0415

    register = DerivedMemory.register

    def registered(self: DerivedMemory, function: Any, **options: Any) -> None:
        if not function.name.startswith(LEFT_OUT):
            register(self, function, **options)

    DerivedMemory.register = registered  # type: ignore[method-assign]
    sys.argv = ["wenmai", *arguments]
    wenmai()


def main() -> None:
    """Print both and their ratio."""
    if sys.argv[1:2] == [WITHOUT]:
        serve_without(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=800)
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    on, off = asyncio.run(_alternate(options.turns, options.rounds))
    middle = [Round(*map(median, zip(*rounds, strict=True))) for rounds in (off, on)]
    for name, one in zip(("without", "with"), middle, strict=True):
        print(f"{name:8} p50 {one.p50_ms:6.1f} ms, CPU {one.cpu_ms:5.2f} ms a turn, writer {one.writer_ms:5.2f} ms")
    print(f"ratio    p50 {middle[1].p50_ms / middle[0].p50_ms:6.2f}    CPU {middle[1].cpu_ms / middle[0].cpu_ms:5.2f}")


if __name__ == "__main__":
    main()
