"""A database file or write-ahead log that is deleted or replaced while the store is open, and reading beside it."""

import asyncio
import os
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import wenmai
from wenmai.clock import system_clock
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import NewMessage
from wenmai.stores.sqlite import SqliteStore, file_identity, open_store, query_readonly

THREAD = ThreadKey("talk", "assistant")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the file."""
    return tmp_path / "wenmai.db"


def url(path: Path) -> str:
    """The URL of a file."""
    return f"sqlite:///{path}"


async def begin(store: SqliteStore) -> None:
    """Create a session with a message."""
    await wenmai.Memory(store.documents, store.logs).session("talk")
    await say(store, "before")


async def say(store: SqliteStore, text: str) -> None:
    """Append a message."""
    await store.logs.append(Scope(), THREAD, [NewMessage(role="user", content=text)])


async def contents(path: Path) -> list[str]:
    """The messages that a newly opened store reads."""
    async with open_store(url(path), clock=wenmai.MovableClock()) as store:
        return [message.content for message in await store.logs.latest(Scope(), THREAD, 50)]


def count_by_sqlite3(path: Path) -> None:
    """Open the file with the standard module, as an embedding program should not."""
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM messages").fetchone() == (1,)
    connection.close()


async def test_nothing_is_acknowledged_after_the_standard_sqlite3_has_deleted_the_log(path: Path) -> None:
    """The error says what happened and what to use instead; earlier acknowledged writes are in the file."""
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        count_by_sqlite3(path)
        for text in ("lost", "refused"):
            with pytest.raises(StoreUnavailable, match=r"log was deleted.*sqlite3.*query_readonly.*Restart"):
                await say(store, text)
        for refused in (store.ping(), store.logs.latest(Scope(), THREAD, 9)):
            with pytest.raises(StoreUnavailable, match="deleted or replaced"):
                await refused
    assert await contents(path) == ["before"]


async def test_a_second_store_on_a_file_with_a_deleted_log_is_refused(path: Path) -> None:
    """Connections of one process share the index of the deleted log; once they are closed, opening works."""
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        count_by_sqlite3(path)
        with pytest.raises(StoreUnavailable, match="Restart"):
            async with open_store(url(path), clock=system_clock):
                pass
    assert await contents(path) == ["before"]


WRITER = """
import asyncio, sys, wenmai
async def main():
    async with wenmai.open(sys.argv[1]) as memory:
        session = await memory.session("talk")
        for number in range(50):
            await session.append([{"role": "user", "content": f"{number} " + "x" * 3_000}])
asyncio.run(main())
"""


async def test_closing_a_store_with_a_deleted_log_does_not_damage_the_file(path: Path) -> None:
    """Later writes of another process are not overwritten from the deleted log."""
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        count_by_sqlite3(path)
        with pytest.raises(StoreUnavailable):
            await say(store, "lost")
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, url(path))
        assert await writer.wait() == 0
    kept = await contents(path)
    assert [text.split()[0] for text in kept[-49:]] == [str(number) for number in range(1, 50)]
    assert await query_readonly(url(path), "PRAGMA integrity_check") == [("ok",)]


def delete(path: Path) -> None:
    """Delete the file and its companions."""
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()


def replace(path: Path) -> None:
    """Replace the file alone, like a restored backup."""
    shutil.copyfile(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def move(path: Path) -> None:
    """Rename the file alone."""
    path.replace(path.with_suffix(".moved"))


def restore(path: Path) -> None:
    """Replace the file alone, like a copied backup that restores the folder's timestamps."""
    before = path.parent.stat()
    replace(path)
    os.utime(path.parent, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("change", [delete, replace, restore, move])
async def test_a_change_is_detected_after_a_quiet_period(
    path: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then only the folder is checked, which changes with the files."""
    monkeypatch.setattr(file_identity, "CTIME_GRANULARITY_NANOSECONDS", 20_000_000)
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        await asyncio.sleep(0.05)
        await say(store, "before too")
        change(path)
        for text in ("lost", "refused"):
            with pytest.raises(StoreUnavailable, match="the file was deleted or replaced"):
                await say(store, text)


@pytest.mark.parametrize("change", [delete, replace, move])
async def test_nothing_is_acknowledged_once_the_file_is_replaced(path: Path, change: Callable[[Path], None]) -> None:
    """The store reports unavailable, also before the next write."""
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        await store.ping()
        change(path)
        with pytest.raises(StoreUnavailable, match="the file was deleted or replaced"):
            await store.ping()
    delete(path)
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        change(path)
        with pytest.raises(StoreUnavailable, match="the file was deleted or replaced"):
            await say(store, "lost")


async def test_a_read_only_query_works_beside_the_store(path: Path) -> None:
    """It sees committed data, takes bindings and cannot write; the store continues."""
    async with open_store(url(path), clock=system_clock) as store:
        await begin(store)
        sql = "SELECT content FROM messages WHERE role = ?"
        assert await query_readonly(url(path), sql, ["user"]) == [("before",)]
        for refused in ("DELETE FROM messages", "PRAGMA user_version = 9", "DROP TABLE messages"):
            with pytest.raises(StoreUnavailable, match="readonly"):
                await query_readonly(url(path), refused)
        with pytest.raises(StoreUnavailable, match="no such table"):
            await query_readonly(url(path), "SELECT * FROM absent")
        await say(store, "after")
    assert await query_readonly(url(path), sql, ["user"]) == [("before",), ("after",)]
    assert await contents(path) == ["before", "after"]


async def test_a_query_of_a_missing_file_is_refused(path: Path) -> None:
    """No file is created."""
    with pytest.raises(StoreUnavailable, match="unable to open"):
        await query_readonly(url(path), "SELECT 1")
    assert list(path.parent.iterdir()) == []
    with pytest.raises(InvalidInput, match="sqlite:///"):
        await query_readonly("memory://", "SELECT 1")
