"""``wenmai serve`` as a child process that tests stop, kill and pause."""

import asyncio
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from cli_process import COMMAND, SECONDS, children_of, environment


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
        with log.open("ab") as log_file:
            self._process = subprocess.Popen(
                [*COMMAND, "serve", *port, *options],
                env=environment(PYTHONUNBUFFERED="1", **settings),
                stdout=subprocess.PIPE,
                stderr=log_file,
                text=True,
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
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
        assert self._process.stdout is not None
        self._process.stdout.close()


def kill(process: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal if the process still exists."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
