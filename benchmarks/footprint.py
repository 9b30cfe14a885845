"""What an import costs, and what a message takes on disk."""

import asyncio
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from statistics import median

from benchmarks.contenders import FLOOR, WENMAI, load
from benchmarks.results import Results
from benchmarks.talk import history

IMPORTS = {
    "python": "",
    "wenmai": "import wenmai",
    "agents": "from agents import SQLiteSession",
    "langgraph": "from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver",
    "agno": "from agno.db.sqlite import SqliteDb",
}
_PROBE = """
import time
start = time.perf_counter()
{statement}
took = time.perf_counter() - start
from benchmarks.peak import peak_mb
print(took, peak_mb())
"""

MESSAGES_EACH = 1_000


JUDGED = ("python", "wenmai")
REPEATS = 5


def measure_imports(results: Results, *, peers: bool) -> None:
    """Milliseconds of the import, and resident MB after it, in a fresh interpreter; of what is judged the median."""
    for name, statement in IMPORTS.items():
        if name not in JUDGED and (not peers or find_spec(name) is None):
            continue
        probe = _PROBE.format(statement=statement)
        found = []
        for _ in range(REPEATS if name in JUDGED else 1):
            command = [sys.executable, "-W", "ignore", "-c", probe]
            took, peak = subprocess.run(command, capture_output=True, check=True).stdout.split()
            found.append((1e3 * float(took), float(peak)))
        results.imports[name] = median(each[0] for each in found), median(each[1] for each in found)


async def measure_disk(results: Results, folder: Path, sessions: int) -> None:
    """Bytes a message, with everything that the file holds, of sessions of 1 000 messages; once it is closed."""
    talks = {f"session-{number}": history(number, MESSAGES_EACH) for number in range(sessions)}
    written = sum(len(content.encode()) for talk in talks.values() for _, content in talk)
    results.content_bytes = written / (sessions * MESSAGES_EACH)
    for name in (FLOOR, WENMAI):
        path = folder / f"disk-{len(results.bytes_per_message)}.db"
        async with load(name)(path) as contender:
            await asyncio.gather(*(contender.fill(session, talk) for session, talk in talks.items()))
        results.bytes_per_message[name] = _size(path) / (sessions * MESSAGES_EACH)


def _size(path: Path) -> int:
    """Of the file and what SQLite keeps beside it."""
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))
