"""Supervisor of worker processes that share one socket; each runs the whole service over the same store.

The store serializes the turns of a thread across workers, so any worker can answer any request. A worker that exits is
replaced, unless workers repeatedly fail right after the start. If the parent dies, the workers stop.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count as counter
from typing import NoReturn

_log = logging.getLogger(__name__)

EARLY_EXIT_SECONDS = 2.0
MAX_EARLY_EXITS = 3

_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Serve = Callable[[int], int]
"""Runs a service until a signal stops it: takes the worker's number, from 0, and returns the exit status."""


def run_workers(serve: Serve, count: int, *, on_stop: Callable[[], None]) -> int:
    """Run ``count`` worker processes until SIGTERM or Ctrl-C; returns their highest exit status.

    Call it before any thread or event loop exists: it forks.

    Args:
        serve: the function that each worker runs.
        count: number of workers.
        on_stop: releases what the parent holds for future workers; called when it stops, possibly twice.
    """
    return _Supervisor(serve, on_stop).run(count)


class _Supervisor:
    def __init__(self, serve: Serve, on_stop: Callable[[], None]) -> None:
        self._serve = serve
        self._on_stop = on_stop
        self._numbers = counter()
        self._running: dict[int, tuple[int, float]] = {}
        self._stopping = False
        self._early_exits = 0
        # Never written to: end of file tells the workers that the parent is gone.
        self._lifeline, self._parent_end = os.pipe()

    def run(self, count: int) -> int:
        for number in _STOP_SIGNALS:
            signal.signal(number, lambda number, _: self._stop(number))
        for _ in range(count):
            self._start()
        worst = 0
        while self._running:
            process, waited = os.wait()
            worker, started_at = self._running.pop(process)
            uptime = time.monotonic() - started_at
            status = os.waitstatus_to_exitcode(waited)
            worst = max(worst, _stop_status(status) if self._stopping else self._replace(worker, status, uptime))
        return worst

    def _start(self) -> None:
        # Block the stop signals, so that a new worker is registered, and has its own handlers, before it can get one.
        signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
        if not self._stopping:
            worker = next(self._numbers)
            process = os.fork()
            if process == 0:
                self._work(worker)
            self._running[process] = worker, time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)

    def _work(self, worker: int) -> NoReturn:
        for number in _STOP_SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        os.close(self._parent_end)
        threading.Thread(target=_stop_with_parent, args=[self._lifeline], daemon=True).start()
        status = 1
        try:
            status = self._serve(worker)
        finally:
            os._exit(status)  # skip the parent's exit handlers

    def _replace(self, worker: int, status: int, uptime: float) -> int:
        """Replace an exited worker; stop and return 1 after repeated early failures."""
        # SIGKILL comes from the system or an administrator and is not a failure of the worker.
        failed_early = uptime < EARLY_EXIT_SECONDS and status != -signal.SIGKILL
        self._early_exits = self._early_exits + 1 if failed_early else 0
        _log.error("worker %d exited with status %d after %.1f s", worker, status, uptime)
        if self._early_exits >= MAX_EARLY_EXITS:
            self._stop(signal.SIGTERM)
            return 1
        self._start()
        return 0

    def _stop(self, number: int) -> None:
        self._stopping = True
        for process in self._running:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        self._on_stop()


def _stop_with_parent(lifeline: int) -> None:
    """Stop this process when the parent is gone, so that the port is free for a successor."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


def _stop_status(status: int) -> int:
    """Exit status of a stopped worker; SIGTERM before the handlers are installed counts as 0."""
    return 0 if status == -signal.SIGTERM else status if status >= 0 else 128 - status
