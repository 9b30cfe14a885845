"""``wenmai serve`` in processes of its own, to be stopped, killed and paused."""

import asyncio
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from cli_process import COMMAND, SECONDS, children_of, environment


class ServiceProcess:
    """A running service; constructing it starts it and returns when it listens.

    Args:
        options: of ``wenmai serve``.
        log: gets what it logs.
        settings: further ones, as in the environment.

    Attributes:
        url: where it listens.
        pid: of the process that was started, which with several workers serves nothing itself.
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
        """The port, for a successor."""
        return self.url.rpartition(":")[2]

    def workers(self) -> list[int]:
        """The processes that serve."""
        return children_of(self.pid) or [self.pid]

    async def terminate(self) -> tuple[int, float]:
        """SIGTERM; its exit status, and after how many seconds it ended."""
        began = time.monotonic()
        self._process.terminate()
        return await asyncio.to_thread(self._process.wait, SECONDS), time.monotonic() - began

    def remove(self) -> None:
        """``kill -9`` for whatever of it still lives."""
        if self._process.poll() is None:
            for process in (*children_of(self.pid), self.pid):
                kill(process, signal.SIGKILL)
        self._process.wait(SECONDS)
        assert self._process.stdout is not None
        self._process.stdout.close()


def kill(process: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send the signal, if the process is still there."""
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return
