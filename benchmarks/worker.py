"""The measured process: one contender, one place; does what it is told on its standard input, line by line.

::

    python -m benchmarks.worker CONTENDER FILE|URL
"""

import asyncio
import gc
import json
import sys
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from benchmarks.contenders import ENTRIES, SQLITE, load
from benchmarks.fsync import FsyncMeter
from benchmarks.peak import peak_mb
from benchmarks.results import Cell, Profile
from benchmarks.workload import Driver


async def serve(name: str, place: Path | str) -> None:
    """Answer a cell with a slice, and ``profile`` with what the contender is, until the input ends."""
    async with load(name)(place) as contender:
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


def _run(name: str, place: str) -> None:
    """Serve; what speaks to a server on the event loop that ``wenmai serve`` has, where it is installed."""
    if ENTRIES[name].on == SQLITE:
        asyncio.run(serve(name, Path(place)))
    elif find_spec("uvloop") is None:
        asyncio.run(serve(name, place))
    else:
        import_module("uvloop").run(serve(name, place))


if __name__ == "__main__":
    try:
        _run(sys.argv[1], sys.argv[2])
    except ModuleNotFoundError as missing:
        _answer({"missing": missing.name})
