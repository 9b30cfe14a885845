"""The cache under what it cannot hold, cannot read or was never meant to hear: calls succeed without it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tier_place import OWNER, STRANGER, THREAD, TURN, Counted, Place, eventually

from redis_server import RedisServer
from wenmai.errors import SessionNotFound, VersionConflict
from wenmai.scope import ThreadKey
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.tiers.copies import TAIL_BYTES, TAIL_MESSAGES

pytestmark = pytest.mark.xdist_group("redis")


@pytest.fixture
async def place(tmp_path: Path, redis_server: RedisServer) -> AsyncIterator[Place]:
    """A durable store in a file, and the Redis server."""
    async with AsyncExitStack() as stack:
        yield Place(f"sqlite:///{tmp_path}/wenmai.db", redis_server, stack)


def list_of(place: Place) -> str:
    """The key of the thread's messages."""
    return f"{place.prefix}:session:short:tenant:site:s-1:elder"


async def test_what_the_cache_cannot_pack_is_read_all_the_same(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers above 64 bits, as earlier versions stored them: every call succeeds, in every process."""
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


async def test_a_copy_on_redis_that_cannot_be_read_is_dropped(place: Place) -> None:
    """Another program wrote into the list and the record: the durable store answers, and the copy goes."""
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
    assert other.tiered.breaker.status.state == "closed"


async def test_large_messages_leave_a_small_copy(place: Place) -> None:
    """A thread's copy on Redis is bounded in bytes as it grows, is filled from below, and is settled."""
    process = await place.process()
    await process.begin()
    for number in range(30):
        content = f"{number}" * 5_000
        appended = await process.logs.append(OWNER, THREAD, [NewMessage(role="user", content=content)])
        open_answer = NewMessage(role="assistant", content="", completed=False)
        answer = await process.logs.append(OWNER, THREAD, [open_answer])
        await process.logs.settle(OWNER, THREAD, answer.messages[0], content=content)
        assert sum(map(len, place.client.lrange(list_of(place), 0, -1))) <= TAIL_BYTES
        assert appended.messages[0].seq == 2 * number + 1
    held = place.client.llen(list_of(place))
    assert 2 <= held < TAIL_MESSAGES
    assert int(place.client.hget(f"{place.prefix}:session:copy:tenant:site:s-1", "bytes:elder") or 0) == sum(
        map(len, place.client.lrange(list_of(place), 0, -1))
    )
    other = await place.process()
    for limit in (2, 20, 60):
        wanted = await process.durable_logs.latest(OWNER, THREAD, limit)
        assert await other.logs.latest(OWNER, THREAD, limit) == wanted
    assert sum(map(len, place.client.lrange(list_of(place), 0, -1))) <= TAIL_BYTES


async def test_a_message_too_large_for_a_copy_is_never_sent_to_redis(place: Place) -> None:
    """Its thread has no copy there, whether it was appended, settled or read, until the newest are small again."""
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
    await process.logs.settle(OWNER, THREAD, answer.messages[0], content=huge[0].content)
    assert not place.client.exists(list_of(place))
    for _ in range(3):
        await process.logs.append(OWNER, THREAD, TURN)
    wanted = await process.durable_logs.latest(OWNER, THREAD, 4)
    fresh = await place.process()
    session = await fresh.documents.get(OWNER, Session, THREAD.session_id)
    assert session is not None
    assert await fresh.logs.latest(OWNER, session.record.thread(THREAD.npc_id), 4) == wanted
    assert 4 <= place.client.llen(list_of(place)) < 10


@pytest.mark.parametrize("said", [b"\xff", b"no json", b'["a","b"]', b'["\xff","t","s","x"]', b"1"])
async def test_a_message_on_the_channel_that_cannot_be_read_ends_nothing(said: bytes, place: Place) -> None:
    """Other processes' changes are heard again a moment later."""
    process, other = await place.process(), await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await other.logs.latest(OWNER, THREAD, 10)) == 2
    trust = other.tiered.documents._reading._trust  # type: ignore[attr-defined] # a test's look inside
    assert trust.heard
    place.client.publish(f"{place.prefix}:session:changes", said)

    async def deaf() -> bool:
        return not trust.heard

    async def hears() -> bool:
        return bool(trust.heard)

    await eventually(deaf)
    await eventually(hears)
    await process.logs.append(OWNER, THREAD, TURN)

    async def sees() -> bool:
        return len(await other.logs.latest(OWNER, THREAD, 10)) == 4

    await eventually(sees)


async def test_a_clock_that_is_set_back_lengthens_no_trust(place: Place) -> None:
    """A message written behind the cache's back shows within the bound of real time, however the clock is set."""
    now, running = datetime.now(UTC), 0.0
    process = await place.process(clock=lambda: now, bound=timedelta(seconds=30), running=lambda: running)
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2
    await process.durable_logs.append(OWNER, THREAD, TURN)
    running, now = 29.0, now + timedelta(seconds=29)
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 2, "still trusted"
    running, now = 31.0, now - timedelta(seconds=27)
    # The copy on Redis ages by the server's clock too, which no test moves.
    assert place.client.delete(f"{place.prefix}:session:copy:tenant:site:s-1")
    assert len(await process.logs.latest(OWNER, THREAD, 10)) == 4


async def test_a_refused_stranger_leaves_the_owners_copies_alone(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Appends and puts of a stranger to the owner's id are refused, and the owner's reads come from the copies."""
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
            await process.logs.append(STRANGER, THREAD, TURN)
        with pytest.raises(VersionConflict):
            await process.documents.put(STRANGER, stored.record, expected=number)
        for reader in (process, other):
            assert len(await reader.logs.latest(OWNER, THREAD, 10)) == 2
            assert await reader.documents.get(OWNER, Session, "s-1") is not None
    guarded = process.tiered.documents._reading._hot  # type: ignore[attr-defined] # a test's look inside

    async def repaired() -> bool:
        return not len(guarded._missed)

    await eventually(repaired)
    for reader in (process, other):
        assert len(await reader.logs.latest(OWNER, THREAD, 10)) == 2
        assert await reader.documents.get(OWNER, Session, "s-1") is not None
    assert [read.calls for read in reads] == [0, 0]


async def test_a_session_of_ten_thousand_personas_is_dropped(place: Place) -> None:
    """The script that removes a copy has no bound on the number of threads."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    names = count()
    marks = f"{place.prefix}:session:copy:tenant:site:s-1"
    place.client.hset(marks, mapping={f"tail:npc-{next(names)}": "0 0" for _ in range(10_000)})
    copies: Any = process.tiered.documents._reading._hot._copies  # type: ignore[attr-defined] # a test's look inside
    await copies.drop(OWNER, "s-1")
    assert place.held() == [marks]
    assert place.client.hget(marks, "dropped")


async def test_no_exception_ends_the_upkeep_of_the_cache(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repair that fails in a way that was not foreseen is tried again, and the copy is not read until it is done."""
    process = await place.process()
    await process.begin()
    await process.logs.append(OWNER, THREAD, TURN)
    copies: Any = process.tiered.documents._reading._hot._copies  # type: ignore[attr-defined] # a test's look inside
    failed = asyncio.Event()
    doubt = type(copies).doubt

    async def failing(*arguments: Any, **named: Any) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a bug")
        await doubt(*arguments, **named)

    monkeypatch.setattr(type(copies), "doubt", failing)
    guarded = process.tiered.documents._reading._hot  # type: ignore[attr-defined] # the same
    guarded.miss(OWNER, THREAD.session_id)

    async def repaired() -> bool:
        return failed.is_set() and not len(guarded._missed)

    await eventually(repaired)
    assert len(await process.logs.latest(OWNER, ThreadKey("s-1", "elder"), 10)) == 2
