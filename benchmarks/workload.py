"""The load: tasks that take turns in sessions, one slice at a time."""

import asyncio
import math
import time
from collections.abc import Iterator, Sequence
from itertools import count

from benchmarks.contenders import WINDOW, Contender
from benchmarks.fsync import FsyncMeter
from benchmarks.results import Cell, Slice
from benchmarks.talk import history, talk

MOST_COUNTED = 50
"""Sessions whose messages are counted after a slice, of those it used."""


class Driver:
    """Loads one contender, and remembers which sessions it has filled."""

    def __init__(self, contender: Contender, meter: FsyncMeter) -> None:
        self._contender = contender
        self._meter = meter
        self._fresh = count()
        self._shared: list[str] = []
        self._length: dict[str, int] = {}

    async def run(self, cell: Cell, seconds: float) -> Slice:
        """One slice: at most the cell's turns, and no longer than ``seconds`` (but three turns at least)."""
        sessions = await self._sessions(cell)
        self._meter.pause(cell.fsync_micros)
        before = self._meter.calls()
        taken: list[tuple[str, float]] = []
        order = enumerate(_order(cell, sessions))
        start = time.perf_counter()
        tasks = [self._take_turns(cell, order, start + seconds, taken) for _ in range(cell.tasks)]
        await asyncio.gather(*tasks)
        elapsed = time.perf_counter() - start
        after = self._meter.calls()
        self._meter.pause(0)
        for session, _ in taken:
            self._length[session] += 2
        times = sorted(each for _, each in taken)
        return Slice(
            p50_ms=1e3 * _percentile(times, 0.5),
            p99_ms=1e3 * _percentile(times, 0.99),
            per_second=len(taken) / elapsed,
            turns=len(taken),
            fsyncs=None if before is None or after is None else (after - before) / len(taken),
            kept=await self._kept([session for session, _ in taken]),
        )

    async def _take_turns(
        self, cell: Cell, order: Iterator[tuple[int, str]], end: float, taken: list[tuple[str, float]]
    ) -> None:
        words = talk(seed=1)
        for number, session in order:
            if number >= 3 and time.perf_counter() > end:
                return
            question, answer = next(words)
            wished = time.perf_counter()
            if cell.tasks > 1:
                await asyncio.sleep(0)  # a turn that finds the event loop busy has waited for it
            window = await self._contender.turn(session, question, answer)
            taken.append((session, time.perf_counter() - wished))
            if cell.tasks == 1 and (len(window), *window[-2:]) != (WINDOW, question, answer):
                raise AssertionError(f"wrong window after turn {number}: {window}")

    async def _sessions(self, cell: Cell) -> list[str]:
        if cell.sessions > 1:
            while len(self._shared) < cell.sessions:
                self._shared.append(await self._fill(cell.history))
            return self._shared[: cell.sessions]
        return [await self._fill(cell.history) for _ in range(math.ceil(cell.turns / cell.stay))]

    async def _fill(self, messages: int) -> str:
        number = next(self._fresh)
        session = f"session-{number}"
        await self._contender.fill(session, history(number, messages))
        self._length[session] = messages
        return session

    async def _kept(self, used: Sequence[str]) -> float:
        """The share of the appended messages that are there; a read-modify-write may lose some."""
        sample = sorted(set(used))[:MOST_COUNTED]
        wanted = sum(self._length[session] for session in sample)
        there = [await self._contender.count(session) for session in sample]
        for session, found in zip(sample, there, strict=True):
            self._length[session] = found
        return sum(there) / wanted


def _order(cell: Cell, sessions: Sequence[str]) -> Iterator[str]:
    """Which session each turn is taken in."""
    for number in range(cell.turns):
        yield sessions[number % len(sessions)] if cell.sessions > 1 else sessions[number // cell.stay]


def _percentile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
