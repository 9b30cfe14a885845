"""``python -m benchmarks``: one interleaved run, A B C A B C …, medians over the rounds.

::

    python -m benchmarks [--quick] [--check] [--json FILE] [--dir FOLDER] [--only NAME]…
"""

import argparse
import asyncio
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks import evaluation, fsync, http_turn, local_cache, search, servers
from benchmarks.check import failures
from benchmarks.contenders import ENTRIES, FLOORS, POSTGRESQL, REDIS, SQLITE, WENMAI
from benchmarks.footprint import measure_disk, measure_imports
from benchmarks.pool import NotInstalled
from benchmarks.report import report
from benchmarks.results import (
    CROWD,
    CROWD_ON_ONE,
    LENGTHS,
    ONE_OF_MANY,
    SLOW_DISK,
    SLOW_DISK_CROWD,
    Results,
    length_cell,
)
from benchmarks.rounds import run_rounds

HTTP_TURNS, QUICK_HTTP_TURNS = 1_600, 320
DISK_SESSIONS, QUICK_DISK_SESSIONS = 100, 20
MEMORY_BACKED = Path("/dev/shm")  # noqa: S108 — a folder of ours is made in it


def main() -> int:
    """Measure, print, and with ``--check`` judge."""
    arguments = _arguments()
    parent = arguments.dir or (MEMORY_BACKED if MEMORY_BACKED.is_dir() else None)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=parent) as folder:
        only = _chosen(arguments.only)
        results = _measure(Path(folder), quick=arguments.quick, only=only)
        _measure_servers(results, parent, quick=arguments.quick, only=only)
    results.search = search.measure_all(
        parent, search.QUICK_SIZES if arguments.quick else search.SIZES, results.skipped
    )
    results.evaluation = evaluation.measure(results.skipped)
    results.about["took"] = f"{time.monotonic() - started:.0f} s"
    print(report(results))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(asdict(results), indent=1), encoding="utf-8")
    broken = list(failures(results)) if arguments.check else []
    for each in broken:
        print(f"check: {each}", file=sys.stderr)
    return 1 if broken else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds: half a minute")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a promised ratio does not hold")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every slice there too")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept; default: memory")
    parser.add_argument("--only", action="append", choices=list(ENTRIES), help="only these beside the floors")
    arguments = parser.parse_args()
    if arguments.check and WENMAI not in _chosen(arguments.only):
        parser.error(f"--check needs {WENMAI}")
    return arguments


def _chosen(only: list[str] | None) -> list[str]:
    """The contenders to measure; the floors always, for the others are given as multiples of them."""
    floors = [name for pair in FLOORS.values() for name in pair]
    return [name for name in ENTRIES if only is None or name in floors or name in only]


def _measure(folder: Path, *, quick: bool, only: list[str]) -> Results:
    results = Results(about=_about(folder))
    library = fsync.build(folder)
    cells = [*(length_cell(length) for length in LENGTHS), ONE_OF_MANY, CROWD_ON_ONE, CROWD]
    if isinstance(library, Path):
        cells += [SLOW_DISK, SLOW_DISK_CROWD]
    else:
        results.skipped["fsync"] = library
    places = {name: folder / f"contender-{number}.db" for number, name in enumerate(only) if ENTRIES[name].on == SQLITE}
    run_rounds(results, places, cells, library=library if isinstance(library, Path) else None, quick=quick)
    measure_imports(results, peers=not quick)
    asyncio.run(measure_disk(results, folder, QUICK_DISK_SESSIONS if quick else DISK_SESSIONS))
    try:
        results.http = asyncio.run(http_turn.measure(folder, QUICK_HTTP_TURNS if quick else HTTP_TURNS))
    except http_turn.NoServer as reason:
        results.skipped["HTTP"] = str(reason)
    return results


def _measure_servers(results: Results, parent: Path | None, *, quick: bool, only: list[str]) -> None:
    for on, started in ((POSTGRESQL, servers.postgresql), (REDIS, servers.redis)):
        try:
            with started(parent) as url:
                places = {name: url for name in only if ENTRIES[name].on == on}
                run_rounds(results, places, [ONE_OF_MANY, CROWD], library=None, quick=quick)
                if on == REDIS:
                    results.local_cache_micros = asyncio.run(local_cache.measure(url))
        except NotInstalled as missing:
            results.skipped[on] = str(missing)


def _about(folder: Path) -> dict[str, str]:
    return {
        "date": time.strftime("%Y-%m-%d"),
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "sqlite3": sqlite3.sqlite_version,
        "storage": "memory-backed" if MEMORY_BACKED in folder.parents else "disk",
    }


if __name__ == "__main__":
    sys.exit(main())
