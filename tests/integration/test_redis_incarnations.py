"""Records bound to a session, in the failure modes of Redis.

Eviction, the server's expiry, a process that dies within a delete, and hashes of an older version.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from redis_server import RedisServer
from wenmai.clock import MovableClock, system_clock
from wenmai.errors import SessionNotFound, StoreUnavailable, VersionConflict
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.samples import small_record, trace
from wenmai.stores.identity import bind_to, bound_session
from wenmai.stores.records import Lease, NewMessage, Preferences, Record, Session, TraceRecord
from wenmai.stores.redis import RedisStore, open_store
from wenmai.stores.redis.address import parse_address
from wenmai.stores.redis.documents import RedisDocuments
from wenmai.stores.redis.link import Link, Script
from wenmai.stores.redis.logs import RedisLogs
from wenmai.stores.redis.reading import Reader

pytestmark = pytest.mark.xdist_group("redis")

OWNER, LATER = Scope("t", "s", "owner"), Scope("t", "s", "later")
THREAD = ThreadKey("s-1", "elder")
DOCUMENT = "p:doc:conversations:t:s:s-1"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
DAY_MILLISECONDS = 86_400_000


@pytest.fixture
async def raw(redis_server: RedisServer) -> AsyncIterator[Redis]:
    """A client of the empty server, like another program's."""
    async with Redis(port=redis_server.port, decode_responses=True) as client:
        await client.flushall()
        yield client


@pytest.fixture
def url(raw: Redis, redis_server: RedisServer) -> str:
    """The URL of a store on the empty server."""
    return f"{redis_server.url}?prefix=p&connect_timeout=5&command_timeout=10"


@pytest.fixture
async def store(url: str) -> AsyncIterator[RedisStore]:
    """The store over the empty server."""
    async with open_store(url, clock=system_clock) as opened:
        yield opened


async def names(raw: Redis, part: str = "") -> list[str]:
    """The keys of the server that contain ``part``."""
    return sorted([key async for key in raw.scan_iter() if part in key])


async def begin(store: RedisStore, scope: Scope = OWNER) -> Session:
    """The session ``s-1``, which outlives the test."""
    record = Session(session_id="s-1", expires_at=system_clock() + DAY, lifetime_seconds=86_400)
    return (await store.documents.put(scope, record, expected=0)).record


async def bind_records(store: RedisStore, session: Session, scope: Scope = OWNER) -> list[Record]:
    """A record of every type that is bound to the session, and a thread."""
    id_, incarnation = session.session_id, session.incarnation
    records: list[Record] = [
        Preferences(session_id=id_, incarnation=incarnation),
        Lease(name="lease", session_id=id_, incarnation=incarnation, holder="h", expires_at=NOON),
        small_record("key", session_id=id_, incarnation=incarnation, response={"answer": "孝"}),
        trace("trace", session_id=id_, incarnation=incarnation, answer="孝"),
    ]
    for record in records:
        await store.documents.put(scope, record)
    await store.logs.append(scope, ThreadKey(id_, "elder", incarnation), [NewMessage(role="user", content="孝")])
    return records


async def visible(store: RedisStore, scope: Scope, records: list[Record]) -> list[str]:
    """Which of the records are there, by get, by get_many and by list."""
    found = []
    for record in records:
        of = type(record)
        got = await store.documents.get(scope, of, record.key)
        many = await store.documents.get_many(scope, of, [record.key])
        listed = await store.documents.list(scope, of)
        found += [of.__name__] * sum((got is not None, bool(many), bool(listed.items)))
    return found


async def test_a_deleted_session_leaves_no_key(store: RedisStore, raw: Redis) -> None:
    """All records bound to it are deleted, with their places in listings and in the index of ends."""
    await bind_records(store, await begin(store))
    await store.documents.put(OWNER, trace("kept for a day", session_id="s-1"), keep_until=system_clock() + DAY)
    assert len(await names(raw)) > 12
    assert await store.documents.delete(OWNER, Session, "s-1")
    assert await names(raw) == []


async def test_a_delete_removes_more_records_than_one_batch(store: RedisStore, raw: Redis) -> None:
    """A session with hundreds of traces leaves none."""
    session = await begin(store)
    for number in range(205):
        await store.documents.put(OWNER, trace(f"trace-{number}", session_id="s-1", incarnation=session.incarnation))
    assert await store.documents.delete(OWNER, Session, "s-1")
    assert await names(raw) == []


async def test_an_interrupted_delete_is_completed_by_the_sweep(
    store: RedisStore, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the process dies after deleting the session's record, bound records are absent and the sweep removes them."""
    records = await bind_records(store, await begin(store))

    async def dies(*_: object) -> list[object]:
        raise StoreUnavailable("redis", "gone")

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "bound_to", dies)
        with pytest.raises(StoreUnavailable):
            await store.documents.delete(OWNER, Session, "s-1")
    assert await names(raw, "doc:traces")
    assert await visible(store, OWNER, records) == []
    with pytest.raises(SessionNotFound):
        await store.documents.put(OWNER, records[0])
    assert await store.documents.sweep() == 1
    assert await names(raw) == []


async def test_remains_of_an_interrupted_delete_are_removed_with_the_successor(
    store: RedisStore, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the id is taken, former records are absent, their keys are free, and the successor's are not removed."""
    await bind_records(store, await begin(store))

    async def dies(*_: object) -> list[object]:
        raise StoreUnavailable("redis", "gone")

    with monkeypatch.context() as patch:
        patch.setattr(Reader, "bound_to", dies)
        with pytest.raises(StoreUnavailable):
            await store.documents.delete(OWNER, Session, "s-1")
    later = await begin(store, LATER)
    records = await bind_records(store, later, LATER)
    assert len(await visible(store, LATER, records)) == 12
    assert await store.documents.sweep() == 0
    assert len(await visible(store, LATER, records)) == 12
    assert await store.documents.delete(LATER, Session, "s-1")
    assert await names(raw) == []


Work = Callable[[], Awaitable[object]]


def meanwhile(monkeypatch: pytest.MonkeyPatch, of: type, name: str, work: Work) -> None:
    """Do the work once, between the return of the method's first call and its caller's next step."""
    method, done = getattr(of, name), False

    async def answered(*words: object) -> object:
        nonlocal done
        answer = await method(*words)
        if not done:
            done = True
            await work()
        return answer

    monkeypatch.setattr(of, name, answered)


async def test_a_delete_keeps_the_records_of_a_successor(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the owner takes the id and the keys while a delete still removes records, the new ones stay."""
    records = await bind_records(store, await begin(store))

    async def taken_again() -> None:
        session = await begin(store)
        for record in records:
            await store.documents.put(OWNER, bind_to(record, session.incarnation), expected=0)

    meanwhile(monkeypatch, Reader, "bound_to", taken_again)
    assert await store.documents.delete(OWNER, Session, "s-1")
    assert len(await visible(store, OWNER, records)) == 12


async def test_an_erase_keeps_the_threads_of_a_successor(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the id is taken after the threads were listed, and before they are removed, the new threads stay."""
    await bind_records(store, await begin(store))

    async def taken_again() -> None:
        await store.documents.delete(OWNER, Session, "s-1")
        await begin(store)
        await store.logs.append(OWNER, THREAD, [NewMessage(role="user", content="悌")])

    meanwhile(monkeypatch, RedisLogs, "_persona_ids", taken_again)
    assert await store.logs.erase(OWNER, "s-1") == 0
    assert [message.content for message in await store.logs.read(OWNER, THREAD)] == ["悌"]


async def test_a_record_that_took_the_key_of_one_that_is_gone_stays(
    store: RedisStore, raw: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two puts over a former session's record, the second finds the first's, and removes nothing of it."""
    await bind_records(store, await begin(store))
    await raw.delete(DOCUMENT)
    record = trace("trace", session_id="s-1", incarnation=(await begin(store)).incarnation)

    async def put() -> None:
        await store.documents.put(OWNER, replace(record, answer="first"), expected=0)

    meanwhile(monkeypatch, RedisDocuments, "_put", put)
    with pytest.raises(VersionConflict):
        await store.documents.put(OWNER, replace(record, answer="second"), expected=0)
    got = await store.documents.get(OWNER, TraceRecord, "trace")
    assert got is not None
    assert got.record.answer == "first"


async def test_scripts_that_are_sent_together_need_not_be_known(url: str) -> None:
    """A server that does not have the script runs all calls, like one that has it."""
    link = Link(parse_address(url))
    try:
        echo = Script("return tonumber(ARGV[1])")
        for _ in ("unknown", "known"):
            assert await link.run_each(echo, [((), (number,)) for number in range(3)]) == [0, 1, 2]
    finally:
        await link.close()


async def test_records_of_an_evicted_session_are_absent(store: RedisStore, raw: Redis) -> None:
    """If the server evicts a session's record, records bound to it are absent, also for a successor."""
    records = await bind_records(store, await begin(store))
    await raw.delete(DOCUMENT)
    assert await visible(store, OWNER, records) == []
    for record in records:
        with pytest.raises(SessionNotFound):
            await store.documents.put(OWNER, record)
    later = await begin(store, LATER)
    assert await visible(store, LATER, records) == await visible(store, OWNER, records) == []
    for record in records:
        put = await store.documents.put(LATER, replace(record, incarnation=later.incarnation), expected=0)
        assert (put.version, put.user_id) == (1, "later")


async def test_the_sweep_removes_what_an_expired_session_left(store: RedisStore, url: str, raw: Redis) -> None:
    """When a session's record has expired, the sweep removes the records bound to it, which the server still has."""
    await bind_records(store, await begin(store))
    await raw.delete(DOCUMENT)
    async with open_store(url, clock=lambda: system_clock() + 40 * DAY) as later:
        await later.documents.sweep()
    assert await names(raw, "doc:") == await names(raw, "pref:") == await names(raw, "filter:") == []
    assert await names(raw, "ending") == []


async def test_bound_records_are_kept_as_long_as_their_session(store: RedisStore, raw: Redis) -> None:
    """A record without an end of its own expires after its session, and is extended with it; one with an end is not."""
    session = await begin(store)
    await bind_records(store, session)
    await store.documents.put(OWNER, trace("short", session_id="s-1"), keep_until=system_clock() + DAY)
    bound_keys = [
        *await names(raw, "doc:traces:t:s:trace"),
        *await names(raw, "doc:leases"),
        *await names(raw, "pref:"),
    ]
    assert len(bound_keys) == 3
    for name in [*bound_keys, *await names(raw, "session:threads")]:
        assert await raw.pexpire(name, 3_600_000)
    await store.documents.put(OWNER, replace(session, expires_at=session.expires_at + DAY))
    kept = await raw.pttl(DOCUMENT)
    for name in bound_keys:
        assert kept <= await raw.pttl(name) <= kept + 2 * DAY_MILLISECONDS
    assert await raw.pttl("p:doc:traces:t:s:short") < 2 * DAY_MILLISECONDS


async def test_a_put_with_an_old_end_keeps_the_servers_expiry(store: RedisStore, raw: Redis) -> None:
    """A change made from a record that was read before its end moved shortens neither the end nor the expiry."""
    read = await begin(store)
    moved = read.expires_at + 5 * DAY
    await store.documents.put(OWNER, replace(read, expires_at=moved))
    expiry = await raw.pexpiretime(DOCUMENT)
    due = await raw.zrange("p:ending", 0, -1, withscores=True)
    put = await store.documents.put(OWNER, replace(read, title="t"))
    assert (put.record.expires_at, put.record.title) == (moved, "t")
    assert await raw.pexpiretime(DOCUMENT) == expiry
    assert await raw.zrange("p:ending", 0, -1, withscores=True) == due


async def to_older(raw: Redis) -> None:
    """Make the hashes like those of an older version, which had no incarnations."""
    for name in [*await names(raw, "doc:"), *await names(raw, "pref:")]:
        await raw.hdel(name, "incarnation", "ref", "attempt_id", "asked_session")


async def test_records_of_an_older_version_are_found(store: RedisStore, raw: Redis) -> None:
    """A session without the field has an incarnation too; its threads and bound records are there and can change."""
    first = await begin(store)
    records = await bind_records(store, first)
    await to_older(raw)
    session = await store.documents.get(OWNER, Session, "s-1")
    assert session is not None
    assert session.record.incarnation == first.incarnation
    pinned = THREAD._replace(incarnation=first.incarnation)
    assert [message.content for message in await store.logs.read(OWNER, pinned)] == ["孝"]
    for record in records:
        found = await store.documents.get(OWNER, type(record), record.key)
        assert found is not None
        assert bound_session(found.record) == ("s-1", first.incarnation)
        assert (await store.documents.put(OWNER, found.record, expected=found.version)).version == 2
    changed = await store.documents.put(OWNER, replace(session.record, title="t"), expected=1)
    assert changed.record.incarnation == first.incarnation


@pytest.mark.parametrize("how", ["deleted", "evicted"])
async def test_records_of_an_older_version_go_with_their_session(how: str, url: str, raw: Redis) -> None:
    """They are removed with it, and remains of one that is gone are absent for a successor."""
    clock = MovableClock(NOON)
    async with open_store(url, clock=clock) as store:
        records = await bind_records(store, await begin(store))
        await to_older(raw)
        if how == "deleted":
            assert await store.documents.delete(OWNER, Session, "s-1")
            assert await names(raw) == []
            return
        await raw.delete(DOCUMENT)
        clock.advance(timedelta(seconds=1))
        await begin(store)
        assert await visible(store, OWNER, records) == []


async def test_a_step_is_one_script(store: RedisStore, raw: Redis) -> None:
    """A get, a put over a record, a batch of gets, an append and a truncate take one script each."""
    session = await begin(store)
    _, lease, turn, traced = await bind_records(store, session)
    key = THREAD._replace(incarnation=session.incarnation)
    steps: dict[str, Work] = {
        "get": lambda: store.documents.get(OWNER, TraceRecord, "trace"),
        "get_many": lambda: store.documents.get_many(OWNER, TraceRecord, ["trace", "other"]),
        "put a lease": lambda: store.documents.put(OWNER, lease),
        "put a turn": lambda: store.documents.put(OWNER, turn),
        "put a trace": lambda: store.documents.put(OWNER, traced),
        "append": lambda: store.logs.append(OWNER, key, [NewMessage(role="user", content="悌")], tail=5),
        "truncate": lambda: store.logs.truncate(OWNER, key, 1),
    }
    for name, step in steps.items():
        await step()
        before = await scripts_run(raw)
        await step()
        assert await scripts_run(raw) == before + 1, name


async def scripts_run(raw: Redis) -> int:
    """How many scripts the server has run."""
    stats = await raw.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("evalsha", "eval"))


async def test_truncating_within_an_open_turn_leaves_no_wrong_count(store: RedisStore, raw: Redis) -> None:
    """The counts of open messages and the ids that callers gave are those of what is left."""
    await begin(store)
    turn = [NewMessage(role="user", content="q"), NewMessage(role="assistant", content="", completed=False)]
    await store.logs.append(OWNER, THREAD, [*turn, *turn, NewMessage(role="user", content="q", id="given")])
    assert await store.logs.truncate(OWNER, THREAD, 3) == 2
    fields = await raw.hgetall("p:session:numbers:t:s:s-1:elder")
    assert {name: value for name, value in fields.items() if "open" in name} == {"_open": "1", "open:1": "1"}
    assert (fields["_count"], fields["_turn"]) == ("3", "2")
    assert "id:given" not in fields
    assert [message.seq for message in await store.logs.latest(OWNER, THREAD, 9, whole_turns=True)] == [3]


async def test_an_id_with_a_huge_number_is_accepted(store: RedisStore) -> None:
    """An id of the form of ours whose number no list reaches is stored, and found when it is repeated."""
    await begin(store)
    message = NewMessage(role="user", content="q", id="msg-ab-99999999999999999999")
    await store.logs.append(OWNER, THREAD, [NewMessage(role="user", content="q")])
    assert (await store.logs.append(OWNER, THREAD, [message])).repeated == 0
    assert (await store.logs.append(OWNER, THREAD, [message])).repeated == 1
