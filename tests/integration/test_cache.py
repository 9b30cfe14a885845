"""The local cache and Redis in front of a durable store: which level answers, and what other processes see."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
from cache_place import OTHER, OWNER, THREAD, TURN, Counted, Place, Process, eventually
from declared_records import Note, declared
from msgspec.structs import replace

from redis_server import RedisServer
from wenmai.clock import system_clock
from wenmai.errors import InvalidInput, StoreUnavailable, VersionConflict
from wenmai.resilience.degradation import collected_degradation
from wenmai.scope import ThreadKey
from wenmai.stores.cache import open_cache
from wenmai.stores.cache.lru import Lru
from wenmai.stores.opening import open_store, open_stores
from wenmai.stores.records import Message, NewMessage, Preferences, Session

pytestmark = pytest.mark.xdist_group("redis")


@pytest.fixture
async def place(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Place]:
    """A durable store in a file, and the Redis server."""
    async with AsyncExitStack() as stack:
        yield Place(f"sqlite:///{tmp_path}/wenmai.db", redis_server, stack)


def texts(messages: list[Message]) -> list[str]:
    """Their contents."""
    return [message.content for message in messages]


async def has_messages(process: Process, number: int) -> bool:
    """Whether the process sees so many messages of the thread."""
    return len(await process.logs.latest(OWNER, THREAD, 60)) == number


async def agrees_with_the_durable_store(process: Process) -> bool:
    """Whether the process sees what is stored."""
    wanted = await process.durable_logs.latest(OWNER, THREAD, 60)
    return await process.logs.latest(OWNER, THREAD, 60) == wanted


async def test_reads_after_a_write_are_cache_hits(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session, its preferences or their absence, its threads and its newest messages are all cached by writes."""
    process, other = await place.process(), await place.process()
    await process.begin()
    for _ in range(3):
        await process.logs.append(OWNER, THREAD, TURN)
    reads = [
        Counted(monkeypatch, process.durable_documents, "get"),
        Counted(monkeypatch, process.durable_logs, "latest"),
        Counted(monkeypatch, process.durable_logs, "threads"),
    ]
    for reader in (process, other):
        session = await reader.documents.get(OWNER, Session, "s-1")
        assert session is not None
        assert await reader.documents.get(OWNER, Preferences, "s-1") is None
        assert texts(await reader.logs.latest(OWNER, THREAD, 4)) == ["祠堂在哪里？", "在村口。"] * 2
        assert [info.message_count for info in await reader.logs.threads(OWNER, "s-1")] == [6]
    assert [read.calls for read in reads] == [0, 0, 0]


async def test_cached_answers_equal_those_of_the_durable_store(place: Place) -> None:
    """After appends, a completion, a rename and preferences: equal in both processes to the durable store."""
    process, other = await place.process(), await place.process()
    await process.begin()
    opened = await process.logs.append(OWNER, THREAD, [*TURN, NewMessage(role="user", content="几时建的？")])
    unfinished = await process.logs.append(
        OWNER, THREAD, [NewMessage(role="assistant", content="", completed=False, metadata={"trace_id": "t"})]
    )
    await process.logs.append(OWNER, ThreadKey("s-1", "teacher"), TURN)
    await process.logs.complete(
        OWNER, THREAD, unfinished.messages[0], content="明代。", tokens=3, metadata={"policy_mode": "normal"}
    )
    stored = await process.documents.get(OWNER, Session, "s-1")
    assert stored is not None
    renamed = Session(
        session_id="s-1",
        expires_at=stored.record.expires_at,
        lifetime_seconds=3600,
        title="祠堂",
        title_by="user",
        context={"客户": ["甲", {"乙": 1}]},
        total_cost_usd=0.25,
    )
    await process.documents.put(OWNER, renamed, expected=stored.version)
    await process.documents.put(OWNER, Preferences(session_id="s-1", tone="casual", interest_tags=["建筑"]), expected=0)
    source = process.durable_logs
    for reader in (process, other):
        for limit in (1, 2, 4, 60):
            for whole in (False, True):
                wanted = await source.latest(OWNER, THREAD, limit, whole_turns=whole)
                assert await reader.logs.latest(OWNER, THREAD, limit, whole_turns=whole) == wanted
        assert await reader.logs.threads(OWNER, "s-1") == await source.threads(OWNER, "s-1")
        for of in (Session, Preferences):
            assert await reader.documents.get(OWNER, of, "s-1") == await process.durable_documents.get(OWNER, of, "s-1")
    assert opened.messages[0].seq == 1


async def test_a_record_that_is_declared_as_cached_is_cached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A further type is read through, its absence too, written through, seen by other processes, and goes."""
    with declared():
        process, other = await place.process(), await place.process()
        await process.begin()
        reads = Counted(monkeypatch, process.durable_documents, "get")
        assert [await reader.documents.get(OWNER, Note, "s-1") for reader in (process, other)] == [None, None]
        first = await process.documents.put(OWNER, Note(session_id="s-1", text="井"), expected=0)
        assert await other.documents.get(OWNER, Note, "s-1") == first
        second = await other.documents.put(OWNER, replace(first.record, text="祠堂"), expected=1)
        assert await process.documents.get(OWNER, Note, "s-1") == second
        assert await process.documents.get(OTHER, Note, "s-1") is None
        assert reads.calls == 1, "the stranger's only"
        place.client.flushall()
        assert [await reader.documents.get(OWNER, Note, "s-1") for reader in (process, process, other)] == [second] * 3
        assert reads.calls == 3, "the first leaves a revision, the second fills"
        assert f"{place.prefix}:doc:notes:tenant:site:s-1" in place.redis_keys()
        await other.documents.delete(OWNER, Session, "s-1")
        assert await process.documents.get(OWNER, Note, "s-1") is None
        assert place.redis_keys() == [f"{place.prefix}:session:copy:tenant:site:s-1"]


async def test_no_entry_answers_another_user(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fresh local and Redis entry, the session is absent for another user, site or tenant.

    Their reads do not evict the owner's entries.
    """
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    await process.documents.put(OWNER, Preferences(session_id="s-1", tone="casual"), expected=0)
    assert await process.logs.latest(OWNER, THREAD, 2)
    for scope in (OTHER, OWNER._replace(site_id="other"), OWNER._replace(tenant_id="other")):
        for reader in (process, await place.process()):
            assert await reader.documents.get(scope, Session, "s-1") is None
            assert await reader.documents.get(scope, Preferences, "s-1") is None
            assert await reader.logs.latest(scope, THREAD, 2) == []
            assert await reader.logs.threads(scope, "s-1") == []
    reads = [
        Counted(monkeypatch, process.durable_documents, "get"),
        Counted(monkeypatch, process.durable_logs, "latest"),
    ]
    entries = len(process.cached.local)
    assert len(await process.logs.latest(OWNER, THREAD, 2)) == 2
    assert await process.documents.get(OWNER, Preferences, "s-1") is not None
    assert [read.calls for read in reads] == [0, 0]
    assert entries == 1, "nothing is cached for others"


async def test_a_session_id_taken_by_another_user_has_no_old_entry(place: Place) -> None:
    """A session that is deleted, and begun by another user in another process, is the other's from then on."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert await other.logs.latest(OWNER, THREAD, 2)
    await process.logs.erase(OWNER, "s-1")
    assert await process.documents.delete(OWNER, Session, "s-1")
    record = Session(session_id="s-1", expires_at=datetime.now(UTC) + timedelta(hours=1), lifetime_seconds=3600)
    await other.documents.put(OTHER, record, expected=0)
    await other.logs.append(OTHER, THREAD, [NewMessage(role="user", content="another's")])
    for reader in (process, other):
        assert texts(await reader.logs.latest(OTHER, THREAD, 9)) == ["another's"]
        assert await reader.documents.get(OWNER, Session, "s-1") is None
        assert await reader.logs.latest(OWNER, THREAD, 9) == []


async def test_stores_sharing_a_redis_do_not_share_entries(
    place: Place, tmp_path: Path, redis_server: RedisServer
) -> None:
    """The same user, session and prefix over another durable store: the first store's data is never visible."""
    first = await place.process()
    await first.begin()
    await first.logs.append(OWNER, THREAD, TURN)
    async with (
        open_store(f"sqlite:///{tmp_path}/another.db") as another,
        open_cache(another, place.redis_url, clock=system_clock) as cached,
    ):
        assert await cached.documents.get(OWNER, Session, "s-1") is None
        assert await cached.logs.latest(OWNER, THREAD, 5) == []
        second = Process(cached, another)
        await second.begin()
        await second.logs.append(OWNER, THREAD, [NewMessage(role="user", content="in another store")])
        third = await place.process()
        assert texts(await third.logs.latest(OWNER, THREAD, 5)) == texts(await first.logs.latest(OWNER, THREAD, 5))
        assert texts(await third.logs.latest(OWNER, THREAD, 5)) == ["祠堂在哪里？", "在村口。"]
        assert texts(await second.logs.latest(OWNER, THREAD, 5)) == ["in another store"]


async def test_other_processes_see_records_at_once_and_messages_in_a_moment(place: Place) -> None:
    """A title and preferences are seen by the next read, a message as soon as its invalidation has arrived."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await other.logs.latest(OWNER, THREAD, 10)) == 2
    for tone in ("casual", "respectful", "formal"):
        stored = await process.documents.get(OWNER, Preferences, "s-1")
        expected = stored.version if stored else 0
        await process.documents.put(OWNER, Preferences(session_id="s-1", tone=tone), expected=expected)
        seen = await other.documents.get(OWNER, Preferences, "s-1")
        assert seen is not None
        assert seen.record.tone == tone
    for number in range(4, 24, 2):
        await process.logs.append(OWNER, THREAD, TURN)
        await eventually(partial(has_messages, other, number))


async def test_a_version_conflict_invalidates_the_entry(place: Place) -> None:
    """Compare-and-set uses the durable store, and its refusal marks the entries stale, so a retry succeeds."""
    process = await place.process()
    await process.begin()
    stored = await process.documents.get(OWNER, Session, "s-1")
    assert stored is not None
    # Like a process that is cut off from Redis.
    await process.durable_documents.put(OWNER, stored.record, expected=1)
    with pytest.raises(VersionConflict):
        await process.documents.put(OWNER, stored.record, expected=1)
    fresh = await process.documents.get(OWNER, Session, "s-1")
    assert fresh is not None
    assert fresh.version == 2
    await process.documents.put(OWNER, fresh.record, expected=2)


async def test_no_entry_is_fresh_past_the_maximal_age(place: Place) -> None:
    """A message that was written past the cache is seen when the maximal age has passed, not later."""
    now = datetime.now(UTC)
    process = await place.process(clock=lambda: now, max_age=timedelta(seconds=30))
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    await process.durable_logs.append(OWNER, THREAD, TURN)
    now += timedelta(seconds=29)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2, "still fresh"
    now += timedelta(seconds=2)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 4
    now += timedelta(seconds=29)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 4, "validated a moment ago"


async def test_extending_an_entry_does_not_renew_its_freshness(place: Place) -> None:
    """An active conversation is validated too: a change that was not published is seen within the maximal age."""
    now = datetime.now(UTC)
    process = await place.process(clock=lambda: now, max_age=timedelta(seconds=30))
    await process.begin()
    unfinished = NewMessage(role="assistant", content="", completed=False)
    answer = (await process.logs.append(OWNER, THREAD, [TURN[0], unfinished])).messages[1]
    await process.durable_logs.complete(OWNER, THREAD, answer, content="filled past the cache")
    for _ in range(3):
        now += timedelta(seconds=9)
        await process.logs.append(OWNER, THREAD, TURN)
    assert texts(await process.logs.latest(OWNER, THREAD, 10))[1] == ""
    now += timedelta(seconds=9)
    assert texts(await process.logs.latest(OWNER, THREAD, 10))[1] == "filled past the cache"


async def test_an_expiry_moved_by_another_process_is_seen(place: Place) -> None:
    """An entry never says that a session has expired: the durable store is read first."""
    now = datetime.now(UTC)
    process = await place.process(clock=lambda: now, max_age=timedelta(hours=9))
    record = Session(session_id="s-1", expires_at=now + timedelta(seconds=100), lifetime_seconds=100)
    await process.documents.put(OWNER, record, expected=0)
    now += timedelta(seconds=60)
    await process.durable_logs.append(OWNER, THREAD, TURN)
    now += timedelta(seconds=60)
    stored = await process.documents.get(OWNER, Session, "s-1")
    assert stored is not None
    assert stored.record.expires_at > now


async def test_a_record_ends_with_its_session(place: Place) -> None:
    """An entry never answers with a record of a session that has ended, also while the entry is fresh."""
    now = datetime.now(UTC)
    with declared():
        process = await place.process(clock=lambda: now)
        end = now + timedelta(seconds=10)
        record = Session(session_id="s-1", expires_at=end, lifetime_seconds=10)
        await process.documents.put(OWNER, record, expected=0, keep_until=end)
        note = await process.documents.put(OWNER, Note(session_id="s-1", text="井"), expected=0)
        now += timedelta(seconds=9)
        assert await process.documents.get(OWNER, Note, "s-1") == note
        now += timedelta(seconds=2)
        assert await process.durable_documents.get(OWNER, Note, "s-1") is None
        assert await process.documents.get(OWNER, Note, "s-1") is None


async def test_an_append_moves_the_end_in_the_entries(place: Place) -> None:
    """The end of a session as read lags behind the durable store by at most a second."""
    process, other = await place.process(), await place.process()
    await process.begin(lifetime=100)
    await asyncio.sleep(1.1)
    await process.logs.append(OWNER, THREAD, TURN)
    wanted = await process.durable_documents.get(OWNER, Session, "s-1")
    assert wanted is not None
    for reader in (process, other):
        seen = await reader.documents.get(OWNER, Session, "s-1")
        assert seen is not None
        assert abs(seen.record.expires_at - wanted.record.expires_at) <= timedelta(seconds=1)


async def test_a_repeated_append_leaves_reads_correct(place: Place) -> None:
    """After repeated appends with known ids, reads equal those of the durable store."""
    process, other = await place.process(), await place.process()
    await process.begin()
    turn = [NewMessage(role="user", content="一", id="q-1"), NewMessage(role="assistant", content="二", id="a-1")]
    for _ in range(3):
        await process.logs.append(OWNER, THREAD, turn)
        await process.logs.append(OWNER, THREAD, [*turn, *TURN])
    for reader in (process, other):
        assert await reader.logs.latest(OWNER, THREAD, 50) == await process.durable_logs.latest(OWNER, THREAD, 50)
        assert await reader.logs.threads(OWNER, "s-1") == await process.durable_logs.threads(OWNER, "s-1")


async def test_a_deleted_session_leaves_no_entry(place: Place) -> None:
    """After the deletion Redis has no text of the session; only the time of the drop, until its TTL ends."""
    process, other = await place.process(), await place.process()
    await process.begin()
    for persona_id in ("elder", "teacher"):
        await process.logs.append(OWNER, ThreadKey("s-1", persona_id), TURN)
        assert await other.logs.latest(OWNER, ThreadKey("s-1", persona_id), 5)
    await process.documents.put(OWNER, Preferences(session_id="s-1", tone="casual"), expected=0)
    assert len(place.redis_keys()) == 5
    await process.logs.erase(OWNER, "s-1")
    await process.documents.delete(OWNER, Session, "s-1")
    await process.documents.delete(OWNER, Preferences, "s-1")
    assert place.redis_keys() == [f"{place.prefix}:session:copy:tenant:site:s-1"]
    assert set(place.client.hgetall(place.redis_keys()[0])) == {b"revision", b"dropped"}
    for reader in (process, other):
        await eventually(partial(has_messages, reader, 0))
        assert await reader.documents.get(OWNER, Session, "s-1") is None


async def test_entries_have_the_documented_formats(place: Place) -> None:
    """The thread is a list of JSON messages, the preferences a hash, under the documented keys."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    await process.documents.put(OWNER, Preferences(session_id="s-1", interest_tags=["建筑"]), expected=0)
    raws = place.client.lrange(f"{place.prefix}:session:short:tenant:site:s-1:elder", 0, -1)
    assert [json.loads(raw)["content"] for raw in raws] == ["祠堂在哪里？", "在村口。"]
    assert {"role", "content", "timestamp", "npc_id", "turn_id"} <= set(json.loads(raws[0]))
    preferences = place.client.hgetall(f"{place.prefix}:session:pref:tenant:site:s-1")
    assert {b"verbosity", b"tone", b"interest_tags", b"language", b"updated_at"} <= set(preferences)
    assert json.loads(preferences[b"interest_tags"]) == ["建筑"]
    assert all(0 < place.client.ttl(key) <= 3600 for key in place.redis_keys()), "entries expire"


async def test_a_cancelled_write_leaves_no_wrong_entry(place: Place) -> None:
    """The outcome of a cancelled write is unknown to its caller and to the cache."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    for _ in range(20):
        task = asyncio.create_task(process.logs.append(OWNER, THREAD, TURN))
        await asyncio.sleep(0.0003)
        task.cancel()
        await asyncio.wait([task])
    for reader in (process, other):
        await eventually(partial(agrees_with_the_durable_store, reader))


async def test_a_write_with_unknown_outcome_marks_entries_stale(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that was committed after its caller was cancelled is seen by the next read."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    append, done, go_on = type(process.durable_logs).append, asyncio.Event(), asyncio.Event()

    async def lost(*arguments: Any, **named: Any) -> Any:
        appended = await append(*arguments, **named)
        done.set()
        await go_on.wait()
        return appended

    monkeypatch.setattr(type(process.durable_logs), "append", lost)
    task = asyncio.create_task(process.logs.append(OWNER, THREAD, TURN))
    await done.wait()
    task.cancel()
    await asyncio.wait([task])
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 4
    go_on.set()


async def test_a_slow_reader_does_not_fill_redis_with_old_data(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result read before another process's change, and filled after it, is not cached for others."""
    slow, writer = await place.process(), await place.process()
    await writer.begin()
    await writer.logs.append(OWNER, THREAD, TURN)
    place.client.delete(*place.redis_keys())
    latest, read, go_on = type(slow.durable_logs).latest, asyncio.Event(), asyncio.Event()

    async def paused(self: Any, *arguments: Any, **named: Any) -> list[Message]:
        found: list[Message] = await latest(self, *arguments, **named)
        if self is slow.durable_logs:
            read.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(type(slow.durable_logs), "latest", paused)
    reading = asyncio.create_task(slow.logs.latest(OWNER, THREAD, 10))
    await read.wait()
    await writer.logs.append(OWNER, THREAD, TURN)
    go_on.set()
    assert len(await reading) == 2
    third = await place.process()
    assert len(await third.logs.latest(OWNER, THREAD, 10)) == 4


async def test_a_session_evicted_locally_is_found_on_redis(
    tmp_path: Path, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With room for ten local sessions, a hundred are still answered without the durable store."""
    redis_url = f"{redis_server.url}?prefix=test-{token_hex(4)}&command_timeout=5"
    async with (
        open_store(f"sqlite:///{tmp_path}/a.db") as durable,
        open_cache(durable, redis_url, clock=system_clock, local=Lru(sessions=10)) as cached,
    ):
        process = Process(cached, durable)
        for number in range(100):
            await process.begin(f"s-{number}")
            await process.logs.append(OWNER, ThreadKey(f"s-{number}", "elder"), TURN)
        assert len(cached.local) == 10
        reads = Counted(monkeypatch, process.durable_logs, "latest")
        for number in range(100):
            assert len(await process.logs.latest(OWNER, ThreadKey(f"s-{number}", "elder"), 5)) == 2
        assert reads.calls == 0


async def test_without_redis_at_startup_the_store_opens_degraded(tmp_path: Path) -> None:
    """A missing cache is no error: the durable store serves everything, noted as degraded."""
    async with open_stores(f"sqlite:///{tmp_path}/a.db", "redis://127.0.0.1:1/0") as (store, breakers):
        assert [breaker.name for breaker in breakers] == ["redis"]
        assert store.documents is not None
        record = Session(session_id="s-1", expires_at=datetime.now(UTC) + timedelta(hours=1), lifetime_seconds=3600)
        with collected_degradation() as degraded:
            await store.documents.put(OWNER, record, expected=0)
            assert await store.documents.get(OWNER, Session, "s-1") is not None
        assert list(degraded) == ["redis"]


@asynccontextmanager
async def refused(url: str, hot: str) -> AsyncIterator[Exception]:
    """The error of opening."""
    with pytest.raises((InvalidInput, StoreUnavailable)) as caught:
        async with open_stores(url, hot):
            pytest.fail("it opened")
    yield caught.value


async def test_an_unusable_redis_fails_at_startup(tmp_path: Path, redis_server: RedisServer) -> None:
    """A malformed URL, one of another scheme, a wrong password, Redis in front of Redis: errors name the setting."""
    url = f"sqlite:///{tmp_path}/a.db"
    for hot in ("redis:/nowhere", "postgresql://h/db", "redis://h/0?prefix=a b", "redis://h/0?unknown=1"):
        async with refused(url, hot) as error:
            assert str(error).startswith("hot"), hot
    async with refused(redis_server.url, f"{redis_server.url}?prefix=other") as error:
        assert str(error).startswith("hot")
    guarded = RedisServer("--requirepass", "right")
    guarded.start()
    try:
        async with refused(url, f"redis://:wr0ng@127.0.0.1:{guarded.port}/0") as error:
            assert str(error).startswith("hot")
            assert "wr0ng" not in str(error)
    finally:
        guarded.stop()
