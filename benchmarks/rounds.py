"""The rounds: each contender in a process of its own, and a slice of each in turn."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.pool import NotInstalled, Worker
from benchmarks.results import Cell, Results

ROUNDS, QUICK_ROUNDS = 5, 2
SECONDS, QUICK_SECONDS = 0.3, 0.08


def run_rounds(
    results: Results, places: Mapping[str, Path | str], cells: Sequence[Cell], *, library: Path | None, quick: bool
) -> None:
    """Measure the contenders against each other, in all cells.

    Args:
        results: gets the slices, what each contender is, and who was left out.
        places: contender → its file or its server's URL.
        cells: how they are loaded.
        library: counts and slows fsyncs; see :mod:`benchmarks.fsync`.
        quick: fewer and shorter rounds.
    """
    workers = _start(results, places, library)
    for number in range(QUICK_ROUNDS if quick else ROUNDS):
        for cell in cells:
            for name, worker in workers.items():
                results.add(cell.name, name, worker.slice(cell, QUICK_SECONDS if quick else SECONDS))
        print(f"round {number + 1} done", file=sys.stderr)
    for name, worker in workers.items():
        results.profiles[name] = worker.profile()
        worker.close()


def _start(results: Results, places: Mapping[str, Path | str], library: Path | None) -> dict[str, Worker]:
    started = {name: Worker(name, place, library) for name, place in places.items()}
    workers = {}
    for name, worker in started.items():
        try:
            worker.ready()
            workers[name] = worker
        except NotInstalled as missing:
            results.skipped[name] = str(missing)
    return workers
