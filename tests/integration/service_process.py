"""``wenmai serve`` as a child process that tests stop, kill and pause."""

import asyncio
import os
import re
import signal
import time
from pathlib import Path

from cli_process import MODULE, SECONDS, children_of, environment
from program import Program


class ServiceProcess:
    """A running service; the constructor starts it and returns when it listens.

    Args:
        options: options of ``wenmai serve``.
        log: file for its log.
        settings: environment variables.

    Attributes:
        url: its base URL.
        pid: the started process; with several workers, their supervisor.
    """

    def __init__(self, *options: str, log: Path, **settings: str) -> None:
        port = () if "--port" in options else ("--port", "0")
        read, write = os.pipe()
        with log.open("a") as log_file, open(write, "w") as announcement:  # noqa: PTH123 — a pipe
            self._process = Program(
                [*MODULE, "serve", *port, *options], env=environment(**settings), stdout=announcement, stderr=log_file
            )
        self._announced = open(read, encoding="utf-8")  # noqa: PTH123, SIM115 — a pipe, open as long as the service may write
        line = self._announced.readline()
        self.pid = self._process.pid
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found is not None, log.read_text(encoding="utf-8")
        self.url = found[0]

    @property
    def port(self) -> str:
        """The port, to reuse for a successor."""
        return self.url.rpartition(":")[2]

    def workers(self) -> list[int]:
        """The process ids of the workers."""
        return children_of(self.pid) or [self.pid]

    async def terminate(self) -> tuple[int, float]:
        """Send SIGTERM; returns the exit status and the seconds until exit."""
        began = time.monotonic()
        self._process.terminate()
        return await asyncio.to_thread(self._process.wait, SECONDS), time.monotonic() - began

    def remove(self) -> None:
        """SIGKILL all of its processes that are still running."""
        if self._process.poll() is None:
            for process in (*children_of(self.pid), self.pid):
                kill(process, signal.SIGKILL)
        self._process.wait(SECONDS)
        self._announced.close()


def kill(process: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal if the process still exists."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
