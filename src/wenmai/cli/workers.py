"""Several processes that serve one socket: each a whole service over the same store.

The store serialises the turns of a thread over all of them, so any process may answer any request. One that dies is
replaced; one that dies at once, again and again, is not.
"""

import logging
import os
import signal
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)

QUICK_DEATH_SECONDS = 2.0
MOST_QUICK_DEATHS = 3

Serve = Callable[[int], int]
"""Runs a service until a signal stops it; from the worker's number, 0 for the first, to its exit status."""


def run_workers(serve: Serve, count: int) -> int:
    """Run ``count`` processes that each ``serve``, until SIGTERM or Ctrl-C; the worst of their exit statuses.

    To be called before any thread or event loop exists: the processes are forks of this one.
    """
    return _Workers(serve).run(count)


class _Workers:
    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._began: dict[int, tuple[int, float]] = {}
        self._stopping = False
        self._quick_deaths = 0

    def run(self, count: int) -> int:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: self._stop(number))
        for worker in range(count):
            self._start(worker)
        worst = 0
        while self._began:
            process, waited = os.wait()
            worker, began = self._began.pop(process)
            lived = time.monotonic() - began
            status = os.waitstatus_to_exitcode(waited)
            worst = max(worst, _ended(status) if self._stopping else self._replace(worker, status, lived))
        return worst

    def _start(self, worker: int) -> None:
        process = os.fork()
        if process:
            self._began[process] = worker, time.monotonic()
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        status = 1
        try:
            status = self._serve(worker)
        finally:
            os._exit(status)  # not the parent's exit handlers a second time

    def _replace(self, worker: int, status: int, lived: float) -> int:
        """Start another worker in place of one that died, unless they die as they are born; the exit status then."""
        self._quick_deaths = self._quick_deaths + 1 if lived < QUICK_DEATH_SECONDS else 0
        _log.error("worker %d ended with status %d after %.1f s", worker, status, lived)
        if self._quick_deaths >= MOST_QUICK_DEATHS:
            self._stop(signal.SIGTERM)
            return 1
        self._start(worker)
        return 0

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._began:
            os.kill(process, number)


def _ended(status: int) -> int:
    """The exit status of a worker that was told to stop; one that had not begun to serve yet just ends."""
    return 0 if status == -signal.SIGTERM else status if status >= 0 else 128 - status
