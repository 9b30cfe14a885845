"""The measured process: one contender, one file; does what it is told on its standard input, line by line.

::

    python -m benchmarks.worker CONTENDER FILE
"""

import asyncio
import gc
import json
import sys
from dataclasses import asdict
from pathlib import Path

from benchmarks.contenders import load
from benchmarks.fsync import FsyncMeter
from benchmarks.peak import peak_mb
from benchmarks.results import Cell, Profile
from benchmarks.workload import Driver


async def serve(name: str, path: Path) -> None:
    """Answer a cell with a slice, and ``profile`` with what the contender is, until the input ends."""
    async with load(name)(path) as contender:
        driver = Driver(contender, FsyncMeter())
        durability = await contender.durability()
        _answer({"ready": True})
        for line in sys.stdin:
            asked = json.loads(line)
            if asked["what"] == "slice":
                gc.collect()
                _answer(asdict(await driver.run(Cell(**asked["cell"]), asked["seconds"])))
            else:
                _answer(asdict(Profile(durability, peak_mb())))


def _answer(what: dict[str, object]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(serve(sys.argv[1], Path(sys.argv[2])))
    except ModuleNotFoundError as missing:
        _answer({"missing": missing.name})
