"""The command line as a user runs it: ``python -m wenmai`` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from program import Program

MODULE = ("-m", "wenmai")
COMMAND = [sys.executable, *MODULE]
"""The command in a new interpreter."""

SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    """The environment without Wenmai settings, for a plain terminal, and without an embedder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WENMAI_", "MEMORY_", "REDIS_"))}
    return {**kept, "WENMAI_EMBEDDER": "none", "PYTHONIOENCODING": "utf-8", "COLUMNS": "200", "NO_COLOR": "1", **more}


class Command:
    """A running ``wenmai`` command.

    Args:
        arguments: its arguments.
        folder: the working directory.
        typed: its standard input.
        settings: environment variables.

    Attributes:
        program: its process.
    """

    def __init__(
        self, *arguments: str | Path, folder: Path, typed: str = "", settings: Mapping[str, str] | None = None
    ) -> None:
        self._arguments = [*MODULE, *map(str, arguments)]
        self._out, self._err = (TemporaryFile("w+", encoding="utf-8") for _ in range(2))  # noqa: SIM115 — until it is done
        with TemporaryFile("w+", encoding="utf-8") as given:
            given.write(typed)
            given.seek(0)
            self.program = Program(
                self._arguments,
                env=environment(**(settings or {})),
                folder=folder,
                stdin=given,
                stdout=self._out,
                stderr=self._err,
            )

    def done(self) -> subprocess.CompletedProcess[str]:
        """Wait for its end; its status and output."""
        try:
            status = self.program.wait(SECONDS)
        finally:
            self.program.kill()
        with self._out, self._err:
            self._out.seek(0)
            self._err.seek(0)
            return subprocess.CompletedProcess(self._arguments, status, self._out.read(), self._err.read())


def wenmai(
    *arguments: str | Path, folder: Path, typed: str = "", settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``wenmai`` in the folder with these arguments, ``typed`` on its stdin."""
    return Command(*arguments, folder=folder, typed=typed, settings=settings).done()


def children_of(process: int) -> list[int]:
    """The child processes; none if the process has exited."""
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(number) for number in listed.split()]
