"""The measured processes, seen from the one that asks."""

import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.results import Cell, Profile, Slice


class NotInstalled(Exception):
    """What the contender needs is not there."""


class Worker:
    """A running ``benchmarks.worker``; call :meth:`ready` first."""

    def __init__(self, contender: str, place: Path | str, fsync_library: Path | None) -> None:
        environment = dict(os.environ)
        if fsync_library is not None:
            environment["LD_PRELOAD"] = str(fsync_library)
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "benchmarks.worker", contender, str(place)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True,
        )  # fmt: skip

    def ready(self) -> None:
        """Return when it has opened its contender.

        Raises:
            NotInstalled: what the contender needs is not there.
        """
        missing = self._read().get("missing")
        if missing is not None:
            self.close()
            raise NotInstalled(f"{missing} is not installed")

    def slice(self, cell: Cell, seconds: float) -> Slice:
        """Load it so for a while."""
        return Slice(**self._ask({"what": "slice", "cell": asdict(cell), "seconds": seconds}))

    def profile(self) -> Profile:
        """What it is, and the most memory that it ever had."""
        return Profile(**self._ask({"what": "profile"}))

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, what: dict[str, object]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the measured process has ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer
