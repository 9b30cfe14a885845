"""Connection threads of the SQLite store: snapshots, lock waits, full queues, batched removals, WAL length."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from wenmai.clock import MovableClock, system_clock
from wenmai.errors import SessionNotFound, StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.records import NewMessage, Session, TraceRecord
from wenmai.stores.sqlite import SqliteStore, checkpoints, connection_threads, open_store
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.schema import connect

SCOPE = Scope()
THREAD = ThreadKey("session-1", "assistant")
COUNT = "SELECT count(*) FROM messages"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Path of the file."""
    return tmp_path / "wenmai.db"


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    """The store with an empty session."""
    clock = MovableClock(system_clock())
    async with open_store(f"sqlite:///{path}", clock=clock) as store:
        ends = clock() + timedelta(days=9)
        await store.documents.put(SCOPE, Session(session_id="session-1", expires_at=ends, lifetime_seconds=777_600))
        yield store


async def say(store: SqliteStore, text: str = "word", times: int = 1) -> None:
    """Append messages."""
    await store.logs.append(SCOPE, THREAD, [NewMessage(role="user", content=text)] * times)


async def test_a_read_sees_one_snapshot(path: Path) -> None:
    """A commit between two statements of a read is visible to neither."""
    async with opened(path) as store:
        await say(store)
        begun, go_on = threading.Event(), threading.Event()

        def twice(connection: apsw.Connection) -> tuple[Any, Any]:
            first = fetch(connection, COUNT)
            begun.set()
            go_on.wait(10)
            return first, fetch(connection, COUNT)

        read = store._connections.read(twice)
        await asyncio.to_thread(begun.wait, 10)
        await say(store)
        go_on.set()
        assert await read == ([(1,)], [(1,)])
        assert await store._connections.read(lambda connection: fetch(connection, COUNT)) == [(2,)]


async def test_a_read_that_fails_ends_its_snapshot(path: Path) -> None:
    """The next read of the same thread sees the newest commit."""
    async with opened(path) as store:
        for number in range(2 * connection_threads.READERS):
            with pytest.raises(StoreUnavailable, match="no such table"):
                await store._connections.read(lambda connection: fetch(connection, "SELECT * FROM absent"))
            await say(store)
            assert await store._connections.read(lambda connection: fetch(connection, COUNT)) == [(number + 1,)]


async def test_all_writes_to_a_locked_file_are_refused_within_one_timeout(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve appends behind another process's transaction wait together, not one after the other."""
    monkeypatch.setattr("wenmai.stores.sqlite.schema.BUSY_MILLISECONDS", 500)
    async with opened(path) as store:
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        refused = await asyncio.gather(*(say(store) for _ in range(12)), return_exceptions=True)
        assert time.monotonic() - started < 3
        assert all(isinstance(each, StoreUnavailable) and "locked" in str(each) for each in refused)
        other.execute("ROLLBACK")
        other.close()
        await say(store)
        assert len(await store.logs.latest(SCOPE, THREAD, 100)) == 1


async def test_a_later_write_waits_for_its_own_timeout(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not refused with earlier ones whose timeout has passed."""
    monkeypatch.setattr("wenmai.stores.sqlite.schema.BUSY_MILLISECONDS", 1_000)
    async with opened(path) as store:
        other = connect(path)
        other.execute("BEGIN IMMEDIATE")
        early = asyncio.ensure_future(say(store, "early"))
        await asyncio.sleep(0.6)
        late = asyncio.ensure_future(say(store, "late"))
        with pytest.raises(StoreUnavailable, match="locked"):
            await early
        other.execute("ROLLBACK")
        other.close()
        await late
        assert [message.content for message in await store.logs.latest(SCOPE, THREAD, 9)] == ["late"]


async def test_a_full_queue_refuses_more_jobs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hanging disk does not exhaust memory; queued jobs are still done."""
    monkeypatch.setattr(connection_threads, "MAX_QUEUED", 3)
    async with opened(path) as store:
        running, released = threading.Event(), threading.Event()

        def hold(_: apsw.Connection) -> None:
            running.set()
            released.wait(10)

        held = store._connections.write(hold)
        await asyncio.to_thread(running.wait, 10)
        tasks = [asyncio.ensure_future(say(store)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailable, match="waiting"):
            await tasks[-1]
        released.set()
        await asyncio.gather(held, *tasks[:3])
        assert len(await store.logs.latest(SCOPE, THREAD, 9)) == 3


async def test_after_a_failure_each_outcome_is_delivered_immediately(path: Path) -> None:
    """When a batch is retried one by one, an append that is on disk waits for no other."""
    async with opened(path) as store:
        running, first, second = threading.Event(), threading.Event(), threading.Event()

        def hold(_: apsw.Connection) -> None:
            running.set()
            first.wait(10)

        def breaks(_: apsw.Connection) -> None:
            raise ZeroDivisionError

        held = store._connections.write(hold)
        await asyncio.to_thread(running.wait, 10)
        appended = asyncio.ensure_future(say(store))
        await asyncio.sleep(0)
        broken, slow = store._connections.write(breaks), store._connections.write(lambda _: second.wait(10))
        first.set()
        await held
        await asyncio.wait_for(appended, 5)
        assert not slow.done()
        second.set()
        assert await slow
        with pytest.raises(ZeroDivisionError):
            await broken


class TestBatchedRemovals:
    """Other writes can run between the batches of a long removal."""

    @pytest.fixture(autouse=True)
    def small_batches(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ten rows each."""
        monkeypatch.setattr(connection_threads, "BATCH_ROWS", 10)

    async def test_appends_run_during_a_sweep(self, path: Path) -> None:
        """The sweep returns the number of removed records."""
        async with opened(path) as store:
            now = system_clock()
            traces = (TraceRecord(ref=f"t{n}", trace_id=f"t{n}", started_at=now, completed_at=now) for n in range(505))
            ended = now - timedelta(days=1)
            await asyncio.gather(*(store.documents.put(SCOPE, trace, keep_until=ended) for trace in traces))
            sweep = asyncio.ensure_future(store.documents.sweep())
            await asyncio.sleep(0)
            await say(store)
            assert not sweep.done()
            assert await sweep == 505

    async def test_an_erased_thread_is_absent_at_once_and_removed_in_batches(self, path: Path) -> None:
        """Appends run in between, also to the same thread key, which restarts."""
        async with opened(path) as store:
            await say(store, times=503)
            erasure = asyncio.ensure_future(store.logs.erase(SCOPE, "session-1"))
            await asyncio.sleep(0)
            await say(store, "again")
            assert not erasure.done()
            assert [(each.seq, each.content) for each in await store.logs.read(SCOPE, THREAD)] == [(1, "again")]
            assert await erasure == 503
            assert await store._connections.read(lambda connection: fetch(connection, COUNT)) == [(1,)]

    async def test_a_sweep_finishes_a_cancelled_erasure(self, path: Path) -> None:
        """No row of the thread remains in the file."""
        async with opened(path) as store:
            await say(store, times=503)
            erasure = asyncio.ensure_future(store.logs.erase(SCOPE, "session-1"))
            await asyncio.sleep(0)
            await store._connections.write(lambda _: None)
            erasure.cancel()
            await asyncio.gather(erasure, return_exceptions=True)
            assert await store.logs.read(SCOPE, THREAD) == []
            assert await store.documents.sweep() == 0
            for left in (COUNT, "SELECT count(*) FROM threads"):
                assert await store._connections.read(partial(fetch, sql=left)) == [(0,)]

    async def test_a_session_is_absent_at_once_and_removed_in_batches(self, path: Path) -> None:
        """A cancelled delete is finished by the next sweep, with all records bound to the session."""
        async with opened(path) as store:
            await say(store, times=503)
            now = system_clock()
            traces = (
                TraceRecord(ref=f"t{n}", trace_id=f"t{n}", session_id="session-1", started_at=now, completed_at=now)
                for n in range(25)
            )
            await asyncio.gather(*(store.documents.put(SCOPE, trace) for trace in traces))
            deletion = asyncio.ensure_future(store.documents.delete(SCOPE, Session, "session-1"))
            await asyncio.sleep(0)
            await store._connections.write(lambda _: None)
            deletion.cancel()
            await asyncio.gather(deletion, return_exceptions=True)
            assert await store.logs.read(SCOPE, THREAD) == []
            assert (await store.documents.list(SCOPE, TraceRecord)).items == []
            with pytest.raises(SessionNotFound):
                await store.logs.append(SCOPE, THREAD, [NewMessage(role="user", content="x")])
            assert await store.documents.sweep() == 0
            for table in ("messages", "threads", "traces", "purges"):
                left = await store._connections.read(partial(fetch, sql=f"SELECT count(*) FROM {table}"))  # noqa: S608 — own
                assert left == [(0,)], table


class TestWriteAheadLog:
    """The write-ahead log stays short."""

    @staticmethod
    def pages(path: Path) -> int:
        """Length of the WAL file."""
        return path.with_name(f"{path.name}-wal").stat().st_size // 4096

    async def test_continuous_reads_do_not_let_the_log_grow(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Beyond a certain length the writer pauses them briefly."""
        for name, value in (("BACKGROUND_PAGES", 20), ("FORCED_PAGES", 40), ("RESTART_PAGES", 100)):
            monkeypatch.setattr(checkpoints, name, value)
        async with opened(path) as store:
            done = False

            def slowly(connection: apsw.Connection) -> None:
                fetch(connection, COUNT)
                time.sleep(0.02)

            async def reads() -> None:
                while not done:
                    await store._connections.read(slowly)

            readers = [asyncio.ensure_future(reads()) for _ in range(2 * connection_threads.READERS)]
            for _ in range(200):
                await say(store, "x" * 20_000)
            done = True
            await asyncio.gather(*readers)
            assert self.pages(path) < 300

    async def test_the_log_is_truncated_after_a_long_read_of_another_process(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """During the read appends continue and the log grows; afterwards the file shrinks."""
        for name, value in (("BACKGROUND_PAGES", 20), ("FORCED_PAGES", 40), ("WAL_BYTES_KEPT", 200_000)):
            monkeypatch.setattr(checkpoints, name, value)
        async with opened(path) as store:
            other = connect(path)
            other.execute("BEGIN")
            fetch(other, COUNT)
            for _ in range(60):
                await say(store, "x" * 20_000)
            assert self.pages(path) > 250
            other.execute("COMMIT")
            other.close()
            for _ in range(5):
                await say(store)
            assert self.pages(path) < 60
