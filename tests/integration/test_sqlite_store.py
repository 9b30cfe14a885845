"""SQLite store: refused files, group commit, and failures."""

import asyncio
import threading
from datetime import timedelta
from pathlib import Path
from statistics import median
from time import perf_counter_ns

import apsw
import pytest

from wenmai.clock import MovableClock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound, StoreTooNew, StoreUnavailable, UnsupportedUrl
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.opening import open_store
from wenmai.stores.records import Lease, NewMessage, Preferences, Session
from wenmai.stores.sqlite import SqliteStore, checkpoints, connection_threads
from wenmai.stores.sqlite import open_store as open_sqlite
from wenmai.stores.sqlite.jobs import Job, Outcome
from wenmai.stores.sqlite.schema import SCHEMA_VERSION, connect

SCOPE = Scope()
THREAD = ThreadKey("session-1", "assistant")
PAGE_IN_LOG = 4_096 + 24
"""Bytes of a page in the write-ahead log, with its header."""


def session(session_id: str = "session-1") -> Session:
    """A session that outlives the test."""
    return Session(session_id=session_id, expires_at=system_clock() + timedelta(days=1), lifetime_seconds=86_400)


def said(text: str) -> list[NewMessage]:
    """One turn."""
    return [NewMessage(role="user", content=text), NewMessage(role="assistant", content=text)]


def log_bytes(path: Path) -> int:
    """The length of the file's write-ahead log; 0 if there is none."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


async def test_a_file_of_a_newer_version_is_refused_and_not_changed(tmp_path: Path) -> None:
    """The error names both versions and what to do; the file is not touched."""
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_store(url):
        pass
    connection = apsw.Connection(str(tmp_path / "wenmai.db"))
    connection.pragma("user_version", SCHEMA_VERSION + 1)
    connection.close()
    before = (tmp_path / "wenmai.db").read_bytes()
    with pytest.raises(StoreTooNew, match=rf"{SCHEMA_VERSION + 1}.*up to {SCHEMA_VERSION}.*upgrade Wenmai"):
        async with open_store(url):
            pass
    assert (tmp_path / "wenmai.db").read_bytes() == before


async def test_a_changed_record_takes_one_page_of_the_log(tmp_path: Path) -> None:
    """Indexes are not written again: neither the key nor the session of a record changes."""
    path = tmp_path / "wenmai.db"
    async with open_sqlite(f"sqlite:///{path}", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        await store.documents.put(SCOPE, Preferences(session_id="session-1"))
        before = log_bytes(path)
        await store.documents.put(SCOPE, Preferences(session_id="session-1", tone="casual"))
        assert log_bytes(path) - before == PAGE_IN_LOG


async def test_a_record_that_moves_to_another_session_ends_with_that_one(tmp_path: Path) -> None:
    """It outlives the session that it was of."""
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=system_clock) as store:
        for session_id in ("session-1", "session-2"):
            await store.documents.put(SCOPE, session(session_id))
            lease = Lease(name="turn", session_id=session_id, holder="h", expires_at=system_clock())
            await store.documents.put(SCOPE, lease)
        await store.documents.delete(SCOPE, Session, "session-1")
        found = await store.documents.get(SCOPE, Lease, "turn")
        assert found is not None
        assert found.record.session_id == "session-2"
        await store.documents.delete(SCOPE, Session, "session-2")
        assert await store.documents.get(SCOPE, Lease, "turn") is None


async def test_another_programs_database_is_refused_and_not_changed(tmp_path: Path) -> None:
    """No tables are added to it."""
    connection = apsw.Connection(str(tmp_path / "other.db"))
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    with pytest.raises(StoreUnavailable, match="not a Wenmai store"):
        async with open_store(f"sqlite:///{tmp_path}/other.db"):
            pass
    connection = apsw.Connection(str(tmp_path / "other.db"))
    assert [name for (name,) in connection.execute("SELECT name FROM sqlite_schema")] == ["theirs"]
    connection.close()


async def test_a_file_that_is_not_a_database_is_refused(tmp_path: Path) -> None:
    """A text file is refused and not overwritten."""
    path = tmp_path / "notes.db"
    path.write_text("这不是数据库。" * 500, encoding="utf-8")
    with pytest.raises(StoreUnavailable, match="not a database"):
        async with open_store(f"sqlite:///{path}"):
            pass
    assert path.read_text(encoding="utf-8").startswith("这不是数据库。")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite:file.db"])
async def test_an_url_without_a_file_is_refused(url: str) -> None:
    """The error shows the URL format."""
    with pytest.raises((InvalidInput, UnsupportedUrl), match="sqlite"):
        async with open_store(url):
            pass


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    """The folder is not created: the path may have a typo."""
    with pytest.raises(StoreUnavailable, match="does its folder exist"):
        async with open_store(f"sqlite:///{tmp_path}/nowhere/wenmai.db"):
            pass


async def test_concurrent_writes_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All jobs queued during a commit go into the next one."""
    commits: list[int] = []
    together = connection_threads.ConnectionThreads._commit

    def counted(
        self: connection_threads.ConnectionThreads, connection: apsw.Connection, jobs: list[Job]
    ) -> list[Outcome]:
        commits.append(len(jobs))
        return together(self, connection, jobs)

    monkeypatch.setattr(connection_threads.ConnectionThreads, "_commit", counted)
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        commits.clear()
        await asyncio.gather(*(store.logs.append(SCOPE, THREAD, said(str(n))) for n in range(200)))
    assert sum(commits) == 200
    assert len(commits) < 20


async def test_a_failed_write_affects_no_other(tmp_path: Path) -> None:
    """In a shared commit, a refusal and an unexpected error affect only their own caller."""
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        foreign = ThreadKey("absent", "assistant")

        def breaks(connection: apsw.Connection) -> None:
            connection.execute("DELETE FROM messages")
            raise ZeroDivisionError

        released = threading.Event()
        held = store._connections.write(lambda _: released.wait(10))  # so that the others wait, and share one commit
        together = asyncio.gather(
            store.logs.append(SCOPE, THREAD, said("one")),
            store.logs.append(SCOPE, foreign, said("two")),
            store._connections.write(breaks),
            store.logs.append(SCOPE, THREAD, said("three")),
            return_exceptions=True,
        )
        await asyncio.sleep(0.05)
        released.set()
        await held
        results = await asyncio.wait_for(together, timeout=10)
        assert [type(result) for result in results[1:3]] == [SessionNotFound, ZeroDivisionError]
        kept = await store.logs.latest(SCOPE, THREAD, 10)
    assert [message.content for message in kept] == ["one", "one", "three", "three"]
    assert [message.seq for message in kept] == [1, 2, 3, 4]


async def test_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    """While the writer is blocked, reads return what was committed before."""
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        await store.logs.append(SCOPE, THREAD, said("before"))
        released = threading.Event()
        held = store._connections.write(lambda _: released.wait(10))
        pending = asyncio.ensure_future(store.logs.append(SCOPE, THREAD, said("after")))
        seen = await asyncio.wait_for(store.logs.latest(SCOPE, THREAD, 10), timeout=5)
        assert [message.content for message in seen] == ["before", "before"]
        assert not pending.done()
        released.set()
        await held
        await pending


async def test_the_log_restarts_under_load(tmp_path: Path) -> None:
    """The write-ahead log is checkpointed under continuous writes, so it does not grow without limit."""
    path = tmp_path / "wenmai.db"
    async with open_sqlite(f"sqlite:///{path}", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        for _ in range(12):
            await asyncio.gather(*(store.logs.append(SCOPE, THREAD, said("言" * 3000)) for _ in range(100)))
        grown = log_bytes(path)
        assert path.stat().st_size > 1_000_000
    pages = (checkpoints.FORCED_PAGES + connection_threads.WRITES_PER_COMMIT * 20) * 4096
    assert grown < pages
    assert log_bytes(path) == 0


async def test_a_process_that_holds_the_file_too_long_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writes wait for another process's transaction up to the busy timeout, then the store is unavailable."""
    monkeypatch.setattr("wenmai.stores.sqlite.schema.BUSY_MILLISECONDS", 50)
    path = tmp_path / "wenmai.db"
    async with open_sqlite(f"sqlite:///{path}", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match="locked"):
            await store.logs.append(SCOPE, THREAD, said("lost?"))
        other.execute("ROLLBACK")
        other.close()
        await store.logs.append(SCOPE, THREAD, said("kept"))
        assert [message.content for message in await store.logs.latest(SCOPE, THREAD, 10)] == ["kept", "kept"]


async def test_deleting_a_foreign_session_takes_as_long_as_deleting_an_absent_one(tmp_path: Path) -> None:
    """Medians of alternating deletes, so that other load slows both equally; the best of three."""
    stranger = Scope(user_id="stranger")
    ratios = []
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        for _ in range(3):
            took: dict[str, list[int]] = {"session-1": [], "session-0": []}
            for number in range(800):
                for session_id in sorted(took, reverse=number % 2 == 0):
                    began = perf_counter_ns()
                    assert not await store.documents.delete(stranger, Session, session_id)
                    took[session_id].append(perf_counter_ns() - began)
            ratios.append(median(took["session-1"]) / median(took["session-0"]))
            if ratios[-1] < 1.1:
                break
    assert min(ratios) < 1.1, ratios


async def test_a_closed_store_refuses_work(tmp_path: Path) -> None:
    """No job is queued that would not run."""
    async with open_sqlite(f"sqlite:///{tmp_path}/wenmai.db", clock=MovableClock()) as store:
        kept: SqliteStore = store
    with pytest.raises(StoreUnavailable, match="closed"):
        await kept.ping()


async def test_records_are_real_columns(tmp_path: Path) -> None:
    """Other programs can read a session's fields by name."""
    async with open_store(f"sqlite:///{tmp_path}/wenmai.db") as store:
        assert store.documents is not None
        await store.documents.put(SCOPE, session())
    connection = apsw.Connection(str(tmp_path / "wenmai.db"))
    rows = list(connection.execute("SELECT session_id, lifetime_seconds, user_id FROM conversations"))
    connection.close()
    assert rows == [("session-1", 86_400, "anonymous")]
