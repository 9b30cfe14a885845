"""The sweeper of derived memory: finds the threads that are behind, also after a crash."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Container
from datetime import datetime, timedelta

from wenmai.clock import Clock
from wenmai.memory.watermarks import FINAL, UNFINISHED, ThreadRef, Watermarks
from wenmai.resilience.work_queue import WorkQueue
from wenmai.stores.contracts import Logs
from wenmai.stores.structs import ActiveThread

_log = logging.getLogger(__name__)

PAGE = 200
"""Sessions examined per page, so that requests are served in between."""

LEAST_PAUSE_SECONDS = 0.02
"""Between two pages; at least as long as the page before took, so that a sweep takes at most half of the time."""

OVERLAP = timedelta(hours=2)
"""How far a sweep looks back before the one before it: longer than an unfinished answer is waited for."""

RECENT = timedelta(minutes=2)
"""Later sweeps leave out threads that were active so recently: other processes store their watermarks lazily."""

WHOLE_SECONDS = 3600.0
"""Interval at which all threads are examined: an import into an old session does not show that it was active, and
another process's clock may be wrong."""

BACKLOG_SECONDS = 0.05
"""Interval at which a sweep looks whether the queue has room again."""


class DerivedSweep:
    """Queues the threads whose watermarks do not match their last message, or passed one that was unfinished.

    The first sweep of a process examines all threads, later ones those that were active since. All are examined
    again every hour, and after threads were left to the sweeper or the clock was set back.

    Args:
        functions: the names of the derived functions.
        checks: the queue of threads to check.
        scheduled: threads that this process will check anyway.
        was_incomplete: whether threads were left to the sweeper since it was last called.
    """

    def __init__(
        self,
        logs: Logs,
        watermarks: Watermarks,
        clock: Clock,
        functions: Collection[str],
        checks: WorkQueue[ThreadRef],
        scheduled: Container[ThreadRef],
        was_incomplete: Callable[[], bool],
    ) -> None:
        self._logs = logs
        self._watermarks = watermarks
        self._clock = clock
        self._functions = functions
        self._checks = checks
        self._scheduled = scheduled
        self._was_incomplete = was_incomplete
        self._swept_until: datetime | None = None
        self._whole_at = 0.0

    async def run(self, *, everything: bool = False) -> int:
        """Sweep once; returns how many threads were behind.

        Raises:
            StoreError: the store failed; the next sweep begins again.
        """
        began = self._clock()
        incomplete = self._was_incomplete()
        set_back = self._swept_until is not None and began < self._swept_until
        if everything or incomplete or set_back or time.monotonic() - self._whole_at >= WHOLE_SECONDS:
            self._swept_until = None
        since = None if self._swept_until is None else self._swept_until - OVERLAP
        until = None if self._swept_until is None else began - RECENT
        started, whole = time.monotonic(), self._swept_until is None
        behind, cursor, more = 0, None, True
        while more:
            page_began = time.monotonic()
            page = await self._logs.active_threads(since=since, cursor=cursor, limit=PAGE)
            found = await self._behind([one for one in page.items if until is None or one.active_at <= until])
            if found and not behind:
                _log.info("derived memory is behind since %s or earlier; catching up", _oldest(found))
            behind += len(found)
            await self._queue(found)
            cursor, more = page.next_cursor, page.next_cursor is not None
            await asyncio.sleep(max(LEAST_PAUSE_SECONDS, time.monotonic() - page_began))
        self._swept_until = began
        if whole:
            self._whole_at = started
        _log.log(logging.INFO if behind else logging.DEBUG, "sweep of derived memory: %d threads were behind", behind)
        return behind

    async def _behind(self, threads: Collection[ActiveThread]) -> list[ActiveThread]:
        by_ref = {ThreadRef(one.scope, one.thread): one for one in threads}
        by_ref = {ref: one for ref, one in by_ref.items() if ref not in self._scheduled}
        marks = await self._watermarks.get_many(list(by_ref), [*self._functions, UNFINISHED])
        return [
            one
            for ref, one in by_ref.items()
            if marks[ref].pop(UNFINISHED) or any(mark not in (one.last_seq, FINAL) for mark in marks[ref].values())
        ]

    async def _queue(self, behind: Collection[ActiveThread]) -> None:
        now, loop_now = self._clock(), asyncio.get_running_loop().time()
        for one in behind:
            while self._checks.is_full:  # noqa: ASYNC110 — a sweep is in no hurry
                await asyncio.sleep(BACKLOG_SECONDS)
            age = max(0.0, (now - one.active_at).total_seconds())
            self._checks.submit(ThreadRef(one.scope, one.thread), loop_now - age)


def _oldest(behind: Collection[ActiveThread]) -> datetime:
    return min(one.active_at for one in behind)
