"""The command line as a user runs it: ``python -m wenmai`` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

COMMAND = [sys.executable, "-m", "wenmai"]
SECONDS = 60


def environment(**more: str) -> dict[str, str]:
    """The environment without Wenmai settings, for a plain terminal, and without an embedder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WENMAI_", "MEMORY_", "REDIS_"))}
    return {**kept, "WENMAI_EMBEDDER": "none", "PYTHONIOENCODING": "utf-8", "COLUMNS": "200", "NO_COLOR": "1", **more}


def wenmai(
    *arguments: str | Path, folder: Path, typed: str = "", settings: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``wenmai`` in the folder with these arguments, ``typed`` on its stdin."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        cwd=folder,
        env=environment(**(settings or {})),
        input=typed,
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


def children_of(process: int) -> list[int]:
    """The child processes; none if the process has exited."""
    try:
        listed = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [int(number) for number in listed.split()]
