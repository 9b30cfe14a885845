"""Data that the cache cannot hold or parse, and failures in its own code: calls succeed without it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cache_place import OTHER, OWNER, THREAD, TURN, Counted, Place, eventually

from redis_server import RedisServer
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import ThreadKey
from wenmai.stores.cache.entries import TAIL_BYTES, TAIL_MESSAGES
from wenmai.stores.records import NewMessage, Session

pytestmark = pytest.mark.xdist_group("redis")


@pytest.fixture
async def place(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Place]:
    """A durable store in a file, and the Redis server."""
    async with AsyncExitStack() as stack:
        yield Place(f"sqlite:///{tmp_path}/wenmai.db", redis_server, stack)


def list_of(place: Place) -> str:
    """The key of the thread's messages."""
    return f"{place.prefix}:session:short:tenant:site:s-1:elder"


async def test_values_that_cannot_be_packed_are_read_uncached(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers above 64 bits, as stored by earlier versions: every call succeeds, in every process."""
    for check in ("logs.check_messages", "documents.check_record"):
        monkeypatch.setattr(f"wenmai.stores.sqlite.{check}", lambda *_: None)
    process, other = await place.process(), await place.process()
    await process.begin()
    odd = NewMessage(role="assistant", content="", tool_calls=[{"order": 2**70}], metadata={"n": 2**64})
    await process.durable_logs.append(OWNER, THREAD, [*TURN, odd])
    for reader, known in ((process, 3), (other, 5)):
        assert len(await reader.logs.latest(OWNER, THREAD, 10)) == known
        await reader.logs.append(OWNER, THREAD, TURN)
        wanted = await process.durable_logs.latest(OWNER, THREAD, 10)
        for _ in range(2):
            assert await reader.logs.latest(OWNER, THREAD, 10) == wanted
            assert await reader.logs.latest(OWNER, THREAD, 10, whole_turns=True) == wanted
    end = datetime.now(UTC) + timedelta(hours=1)
    huge = Session(session_id="huge", expires_at=end, lifetime_seconds=3600, metadata={"n": 2**70})
    await process.durable_documents.put(OWNER, huge)
    for reader in (process, other, process):
        stored = await reader.documents.get(OWNER, Session, "huge")
        assert stored is not None
        assert stored.record.metadata == {"n": 2**70}
        await reader.documents.put(OWNER, stored.record, expected=stored.version)


async def test_an_unreadable_redis_entry_is_dropped(place: Place) -> None:
    """Another program wrote into the list and the record: the durable store answers, and the entry is dropped."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    place.client.rpush(list_of(place), b"\xff no message")
    place.client.hset(f"{place.prefix}:doc:conversations:tenant:site:s-1", "expires_at", "soon")
    other = await place.process()
    assert len(await other.logs.latest(OWNER, THREAD, 10)) == 2
    assert await other.documents.get(OWNER, Session, "s-1") is not None

    async def is_dropped() -> bool:
        return not place.client.exists(list_of(place))

    await eventually(is_dropped)
    assert other.cached.breaker.status.state == "closed"


async def test_large_messages_leave_a_small_entry(place: Place) -> None:
    """A thread on Redis is bounded in bytes after appends, fills from the durable store, and completions."""
    process = await place.process()
    await process.begin()
    for number in range(30):
        content = f"{number}" * 5_000
        appended = await process.logs.append(OWNER, THREAD, [NewMessage(role="user", content=content)])
        open_answer = NewMessage(role="assistant", content="", completed=False)
        answer = await process.logs.append(OWNER, THREAD, [open_answer])
        await process.logs.complete(OWNER, THREAD, answer.messages[0], content=content)
        assert sum(map(len, place.client.lrange(list_of(place), 0, -1))) <= TAIL_BYTES
        assert appended.messages[0].seq == 2 * number + 1
    cached_messages = place.client.llen(list_of(place))
    assert 2 <= cached_messages < TAIL_MESSAGES
    assert int(place.client.hget(f"{place.prefix}:session:copy:tenant:site:s-1", "bytes:elder") or 0) == sum(
        map(len, place.client.lrange(list_of(place), 0, -1))
    )
    other = await place.process()
    for limit in (2, 20, 60):
        wanted = await process.durable_logs.latest(OWNER, THREAD, limit)
        assert await other.logs.latest(OWNER, THREAD, limit) == wanted
    assert sum(map(len, place.client.lrange(list_of(place), 0, -1))) <= TAIL_BYTES


async def test_a_message_too_large_for_an_entry_is_never_sent_to_redis(place: Place) -> None:
    """Its thread is not cached there, whether it was appended, completed or read, until the newest are small again."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    huge = [NewMessage(role="user", content="长" * TAIL_BYTES)]
    await process.logs.append(OWNER, THREAD, huge)
    assert not place.client.exists(list_of(place))
    for reader in (other, process):
        assert len(await reader.logs.latest(OWNER, THREAD, 10)) == 3
        assert not place.client.exists(list_of(place))
    open_answer = NewMessage(role="assistant", content="", completed=False)
    answer = await process.logs.append(OWNER, THREAD, [open_answer])
    await process.logs.complete(OWNER, THREAD, answer.messages[0], content=huge[0].content)
    assert not place.client.exists(list_of(place))
    for _ in range(3):
        await process.logs.append(OWNER, THREAD, TURN)
    wanted = await process.durable_logs.latest(OWNER, THREAD, 4)
    fresh = await place.process()
    session = await fresh.documents.get(OWNER, Session, THREAD.session_id)
    assert session is not None
    assert await fresh.logs.latest(OWNER, session.record.thread(THREAD.persona_id), 4) == wanted
    assert 4 <= place.client.llen(list_of(place)) < 10


@pytest.mark.parametrize("payload", [b"\xff", b"no json", b'["a","b"]', b'["\xff","t","s","x"]', b"1"])
async def test_an_unreadable_channel_message_does_not_end_the_listener(payload: bytes, place: Place) -> None:
    """The process is subscribed again a moment later."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await other.logs.latest(OWNER, THREAD, 10)) == 2
    freshness = other.cached.documents._read_through._freshness  # type: ignore[attr-defined] # a test's look inside
    assert freshness.subscribed
    place.client.publish(f"{place.prefix}:session:changes", payload)

    async def is_unsubscribed() -> bool:
        return not freshness.subscribed

    async def is_subscribed() -> bool:
        return bool(freshness.subscribed)

    await eventually(is_unsubscribed)
    await eventually(is_subscribed)
    await process.logs.append(OWNER, THREAD, TURN)

    async def sees() -> bool:
        return len(await other.logs.latest(OWNER, THREAD, 10)) == 4

    await eventually(sees)


async def test_setting_the_clock_back_does_not_extend_freshness(place: Place) -> None:
    """A message written past the cache is seen within the maximal age in real time, however the clock is set."""
    now, seconds = datetime.now(UTC), 0.0
    process = await place.process(clock=lambda: now, max_age=timedelta(seconds=30), monotonic_clock=lambda: seconds)
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2
    await process.durable_logs.append(OWNER, THREAD, TURN)
    seconds, now = 29.0, now + timedelta(seconds=29)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2, "still fresh"
    seconds, now = 31.0, now - timedelta(seconds=27)
    # The entry on Redis ages by the server's clock too, which no test moves.
    assert place.client.delete(f"{place.prefix}:session:copy:tenant:site:s-1")
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 4


async def test_refusals_of_others_do_not_invalidate_the_owners_entries(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another user's appends and puts to the session are refused, and the owner's reads are still cache hits."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2
    stored = await process.documents.get(OWNER, Session, "s-1")
    assert stored is not None
    reads = [
        Counted(monkeypatch, process.durable_logs, "latest"),
        Counted(monkeypatch, process.durable_documents, "get"),
    ]
    for number in range(5):
        with pytest.raises(SessionNotFound):
            await process.logs.append(OTHER, THREAD, TURN)
        with pytest.raises(VersionConflict):
            await process.documents.put(OTHER, stored.record, expected=number)
        for reader in (process, other):
            assert len(await reader.logs.latest(OWNER, THREAD, 10)) == 2
            assert await reader.documents.get(OWNER, Session, "s-1") is not None
    resilient = process.cached.documents._read_through._redis  # type: ignore[attr-defined] # a test's look inside

    async def sent() -> bool:
        return not len(resilient._pending)

    await eventually(sent)
    for reader in (process, other):
        assert len(await reader.logs.latest(OWNER, THREAD, 10)) == 2
        assert await reader.documents.get(OWNER, Session, "s-1") is not None
    assert [read.calls for read in reads] == [0, 0]


async def test_a_session_of_ten_thousand_personas_is_dropped(place: Place) -> None:
    """The script that drops an entry has no bound on the number of threads."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    names = count()
    metadata = f"{place.prefix}:session:copy:tenant:site:s-1"
    place.client.hset(metadata, mapping={f"tail:npc-{next(names)}": "0 0" for _ in range(10_000)})
    cache: Any = process.cached.documents._read_through._redis._cache  # type: ignore[attr-defined] # a test's look inside
    await cache.drop(OWNER, "s-1")
    assert place.redis_keys() == [metadata]
    assert place.client.hget(metadata, "dropped")


async def test_no_exception_ends_a_background_task_of_the_cache(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """An invalidation that fails unexpectedly is retried, and the entry is not read until it is done."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    cache: Any = process.cached.documents._read_through._redis._cache  # type: ignore[attr-defined] # a test's look inside
    failed = asyncio.Event()
    mark_stale = type(cache).mark_stale

    async def failing(*arguments: Any, **named: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a bug")
        await mark_stale(*arguments, **named)

    monkeypatch.setattr(type(cache), "mark_stale", failing)
    resilient = process.cached.documents._read_through._redis  # type: ignore[attr-defined] # the same
    resilient.invalidate_later(OWNER, THREAD.session_id)

    async def sent() -> bool:
        return failed.is_set() and not len(resilient._pending)

    await eventually(sent)
    assert len(await process.logs.latest(OWNER, ThreadKey("s-1", "elder"), 10)) == 2
