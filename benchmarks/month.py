"""A month of talk: 1 000 sessions, 100 000 messages of one tenant, imported, killed, resumed, indexed, recalled from.

::

    python -m benchmarks.month [--messages 100000] [--dir FOLDER] [--store URL]

Half of the messages are one user's. Each user's sessions are a file for ``wenmai import``. The first import is killed
with SIGKILL in the middle of its messages, and its successor in the middle of indexing. At the end, each message must
be stored and indexed once, and what was said in a session must be recalled over HTTP.
"""

import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from benchmarks.http_turn import Visitor, service
from benchmarks.search import Corpus
from wenmai.clock import system_clock
from wenmai.memory.library import Memory, required
from wenmai.scope import Scope
from wenmai.stores.opening import open_store

MESSAGES, OF_SESSION = 100_000, 100
USERS = {"user-large": 0.5, "user-a": 0.2, "user-b": 0.2, "user-c": 0.1}
"""Each with its part of the sessions."""

WORDS = 16
ASKED = 20
POLL_SECONDS = 0.3
MEGABYTE = 2**20
QUIET = {"WENMAI_EMBEDDER": "none", "WENMAI_LOG_LEVEL": "warning"}


class Run(NamedTuple):
    """A process that has ended: its exit status, seconds, and most resident memory in megabytes."""

    status: int
    seconds: float
    peak_mb: float


def fact(number: int) -> str:
    """The message of a session that is asked for; no other has its numbers."""
    return f"The locker {7_000_000 + number} was left to the heron keeper"


def write_files(folder: Path, messages: int) -> dict[str, tuple[Path, list[int]]]:
    """A file for each user, with the numbers of its sessions."""
    sessions = iter(range(messages // OF_SESSION))
    corpus = Corpus(seed=6)
    files = {}
    for user, part in USERS.items():
        path = folder / f"{user}.jsonl"
        own = list(islice(sessions, round(part * messages / OF_SESSION)))
        with path.open("w", encoding="utf-8") as file:
            for number in own:
                file.writelines(_lines(corpus, number))
        files[user] = path, own
    return files


def _lines(corpus: Corpus, session: int) -> list[str]:
    start = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=43 * session)
    lines = []
    for number in range(OF_SESSION):
        message = {
            "session_id": f"talk-{session:05}",
            "role": "assistant" if number % 2 else "user",
            "content": fact(session) if number == OF_SESSION // 2 else corpus.text(WORDS),
            "timestamp": (start + timedelta(seconds=20 * number)).isoformat(),
        }
        lines.append(json.dumps(message, ensure_ascii=False) + "\n")
    return lines


def import_file(url: str, path: Path, user: str, until: Callable[[], bool] | None = None) -> Run:
    """Run ``wenmai import``; kill it once the condition holds."""
    command = [sys.executable, "-m", "wenmai", "import", str(path), "--store", url, "--user", user]
    began, peak = time.perf_counter(), 0.0
    process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        peak = max(peak, resident_peak(process.pid))
        if until is not None and until():
            process.send_signal(signal.SIGKILL)
        time.sleep(POLL_SECONDS)
    return Run(process.returncode, time.perf_counter() - began, peak)


def resident_peak(process: int) -> float:
    """The most memory that a process had, in megabytes; 0 if it is gone."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = [line for line in status.splitlines() if line.startswith("VmHWM")]
    return int(found[0].split()[1]) / 1024 if found else 0.0


async def counts(url: str, user: str) -> tuple[int, int]:
    """Stored and indexed messages of a user."""
    async with open_store(url, clock=system_clock) as store:
        documents, logs = required(store, url)
        memory = Memory(documents, logs, search=store.search)
        indexed = (await memory.recalls.size(Scope(user_id=user))).entries
        stored, cursor, more = 0, None, True
        while more:
            page = await logs.active_threads(cursor=cursor, limit=500)
            stored += sum(one.last_seq for one in page.items if one.scope.user_id == user)
            cursor, more = page.next_cursor, page.next_cursor is not None
        return stored, indexed


def import_all(url: str, files: dict[str, tuple[Path, list[int]]]) -> float:
    """Import all files, the first with two kills; returns the most memory of a process in megabytes."""
    peak = 0.0
    for number, (user, (path, sessions)) in enumerate(files.items()):
        expected = len(sessions) * OF_SESSION
        if not number:
            for what in (0, 1):
                killed = import_file(url, path, user, partial(_is_half, url, user, what, expected))
                print(f"{user}: killed ({killed.status}), {_counted(url, user)}", flush=True)
                peak = max(peak, killed.peak_mb)
        run = import_file(url, path, user)
        print(f"{user}: {run.seconds:.1f} s, most memory {run.peak_mb:.0f} MB, {_counted(url, user)}", flush=True)
        found = asyncio.run(counts(url, user))
        if (run.status, found) != (0, (expected, expected)):
            raise AssertionError(f"{user}: exit status {run.status}, {found} of {expected}")
        peak = max(peak, run.peak_mb)
    return peak


def _is_half(url: str, user: str, what: int, expected: int) -> bool:
    return 2 * asyncio.run(counts(url, user))[what] > expected


def _counted(url: str, user: str) -> str:
    stored, indexed = asyncio.run(counts(url, user))
    return f"{stored} messages stored, {indexed} indexed"


async def recall_all(url: str, files: dict[str, tuple[Path, list[int]]]) -> tuple[float, float]:
    """Ask the service for some facts of each user; returns the milliseconds of a recall, and its most memory."""
    chance, times = random.Random(7), []
    async with service("--store", url) as (port, process):
        visitor = await Visitor.arrive(port)
        for user, (_, sessions) in files.items():
            for number in chance.sample(sessions, min(ASKED, len(sessions))):
                began = time.perf_counter()
                answer = await visitor.post(
                    "/v1/recall", {"query": f"Who got the locker {7_000_000 + number}?"}, user=user
                )
                times.append(1e3 * (time.perf_counter() - began))
                items = answer["items"]
                if not isinstance(items, list) or fact(number) not in items[0]["text"]:
                    raise AssertionError(f"not recalled: {fact(number)}")
        visitor.leave()
        return sorted(times)[len(times) // 2], resident_peak(process)


def main() -> None:
    """Run the month, and print what it took."""
    parser = argparse.ArgumentParser(prog="benchmarks.month", description=__doc__.splitlines()[0])
    parser.add_argument("--messages", type=int, default=MESSAGES)
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where files and store are kept")
    parser.add_argument("--store", metavar="URL", help="an empty store; default: an SQLite file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wenmai-month-", dir=arguments.dir) as name:
        folder = Path(name)
        files = write_files(folder, arguments.messages)
        url = arguments.store or f"sqlite:///{folder}/month.db"
        began = time.perf_counter()
        peak = import_all(url, files)
        print(f"imported and indexed in {time.perf_counter() - began:.0f} s, most memory {peak:.0f} MB")
        p50, serving = asyncio.run(recall_all(url, files))
        print(f"recall over HTTP: p50 {p50:.1f} ms, most memory of the service {serving:.0f} MB")
        texts = sum(path.stat().st_size for path, _ in files.values())
        stored = sum(path.stat().st_size for path in folder.glob("month.db*"))
        print(f"on disk: {stored / MEGABYTE:.0f} MB for {texts / MEGABYTE:.0f} MB of JSON lines")


if __name__ == "__main__":
    main()
