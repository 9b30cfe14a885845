"""Several processes that serve one socket: each a whole service over the same store.

The store serialises the turns of a thread over all of them, so any process may answer any request. One that dies is
replaced; one that ends by itself at once, again and again, is not. If the parent dies, they stop.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count as counted
from typing import NoReturn

_log = logging.getLogger(__name__)

QUICK_DEATH_SECONDS = 2.0
MOST_QUICK_DEATHS = 3

_TOLD_TO_STOP = (signal.SIGTERM, signal.SIGINT)

Serve = Callable[[int], int]
"""Runs a service until a signal stops it; from the worker's number, 0 for the first of all, to its exit status."""


def run_workers(serve: Serve, count: int, *, on_stop: Callable[[], None]) -> int:
    """Run ``count`` processes that each ``serve``, until SIGTERM or Ctrl-C; the worst of their exit statuses.

    To be called before any thread or event loop exists: the processes are forks of this one.

    Args:
        serve: what each of them does.
        count: how many.
        on_stop: gives up what the parent holds for workers to come; called when there will be none, perhaps twice.
    """
    return _Workers(serve, on_stop).run(count)


class _Workers:
    def __init__(self, serve: Serve, on_stop: Callable[[], None]) -> None:
        self._serve = serve
        self._on_stop = on_stop
        self._numbers = counted()
        self._began: dict[int, tuple[int, float]] = {}
        self._stopping = False
        self._quick_deaths = 0
        # Nothing is ever written; that it ends tells the workers that the parent has.
        self._lifeline, self._held_by_parent = os.pipe()

    def run(self, count: int) -> int:
        for number in _TOLD_TO_STOP:
            signal.signal(number, lambda number, _: self._stop(number))
        for _ in range(count):
            self._start()
        worst = 0
        while self._began:
            process, waited = os.wait()
            worker, began = self._began.pop(process)
            lived = time.monotonic() - began
            status = os.waitstatus_to_exitcode(waited)
            worst = max(worst, _ended(status) if self._stopping else self._replace(worker, status, lived))
        return worst

    def _start(self) -> None:
        # A signal on the way waits, so that whoever is told to stop is known to the parent and knows it itself.
        signal.pthread_sigmask(signal.SIG_BLOCK, _TOLD_TO_STOP)
        if not self._stopping:
            worker = next(self._numbers)
            process = os.fork()
            if process == 0:
                self._work(worker)
            self._began[process] = worker, time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_TO_STOP)

    def _work(self, worker: int) -> NoReturn:
        for number in _TOLD_TO_STOP:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _TOLD_TO_STOP)
        os.close(self._held_by_parent)
        threading.Thread(target=_stop_with_parent, args=[self._lifeline], daemon=True).start()
        status = 1
        try:
            status = self._serve(worker)
        finally:
            os._exit(status)  # not the parent's exit handlers a second time

    def _replace(self, worker: int, status: int, lived: float) -> int:
        """Start another worker in place of one that died, unless they die as they are born; the exit status then."""
        # Who is killed did not fail; the system or its administrator chose to.
        failed_at_once = lived < QUICK_DEATH_SECONDS and status != -signal.SIGKILL
        self._quick_deaths = self._quick_deaths + 1 if failed_at_once else 0
        _log.error("worker %d ended with status %d after %.1f s", worker, status, lived)
        if self._quick_deaths >= MOST_QUICK_DEATHS:
            self._stop(signal.SIGTERM)
            return 1
        self._start()
        return 0

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._began:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        self._on_stop()


def _stop_with_parent(lifeline: int) -> None:
    """Stop this process when the parent is gone, so that its port is free for the parent's successor."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _ended(status: int) -> int:
    """The exit status of a worker that was told to stop; one that had not begun to serve yet just ends."""
    return 0 if status == -signal.SIGTERM else status if status >= 0 else 128 - status
