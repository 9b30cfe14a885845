"""The Redis store: documented formats, and servers that are down, hung, slow, full or empty."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

from fault_proxy import FAULTS, Fault, fault_proxy
from redis_server import RedisServer, free_port
from wenmai.clock import MovableClock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound, StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.samples import HOSTILE_KEYS
from wenmai.stores.opening import open_stores
from wenmai.stores.records import EvidenceRecord, Message, NewMessage, Preferences, Session, TraceRecord
from wenmai.stores.redis import RedisStore, attach_store, open_store
from wenmai.stores.redis.address import Address, parse_address
from wenmai.stores.redis.keys import escape

pytestmark = pytest.mark.xdist_group("redis")

SCOPE = Scope("yantian", "yantian-main", "user")
THREAD = ThreadKey("session-def456", "ancestor_yan")
QUICK = "connect_timeout=0.2&command_timeout=0.2"
BOUND_SECONDS = 0.4 + 1.0
"""The timeouts of ``QUICK``, and a margin for a busy machine."""

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
OPEN = Message("m", 1, 1, THREAD.persona_id, "assistant", "", NOON, completed=False)
"""A message to be completed."""


@pytest.fixture
def empty_server(redis_server: RedisServer) -> RedisServer:
    """The shared server without any key: restarted."""
    redis_server.kill()
    redis_server.start()
    return redis_server


@pytest.fixture
async def raw(empty_server: RedisServer) -> AsyncIterator[Redis]:
    """A client of the server, like another program's."""
    client = Redis(port=empty_server.port, decode_responses=True)
    yield client
    await client.aclose()


@pytest.fixture
async def store(empty_server: RedisServer) -> AsyncIterator[RedisStore]:
    """The store over the empty server, with the npc profile's prefix."""
    async with open_store(f"{empty_server.url}?prefix=yantian&command_timeout=5", clock=system_clock) as opened:
        yield opened


def session(session_id: str = THREAD.session_id) -> Session:
    """A session that outlives the test."""
    return Session(session_id=session_id, expires_at=system_clock() + timedelta(days=1), lifetime_seconds=86_400)


def turn_of(text: str) -> list[NewMessage]:
    """One turn."""
    return [NewMessage(role="user", content=text), NewMessage(role="assistant", content=f"{text}。")]


async def names(raw: Redis) -> list[str]:
    """All keys of the server."""
    return [key async for key in raw.scan_iter()]


async def test_a_thread_is_a_list_of_json(store: RedisStore, raw: Redis) -> None:
    """Key, type and fields are the documented ones; the order is that of arrival."""
    await store.documents.put(SCOPE, session())
    asked = NewMessage(role="user", content="请问严氏家训有哪些？", timestamp=NOON)
    answered = NewMessage(role="assistant", content="后生问得好…", id="m-2", completed=False, tokens=7)
    appended = await store.logs.append(SCOPE, THREAD, [asked, answered])
    key = "yantian:session:short:yantian:yantian-main:session-def456:ancestor_yan"
    assert await raw.type(key) == "list"
    first, second = map(json.loads, await raw.lrange(key, 0, -1))
    own_id = first.pop("id")
    assert own_id.startswith("msg-")
    assert first == {
        "role": "user",
        "content": "请问严氏家训有哪些？",
        "timestamp": "2026-03-01T12:00:00Z",
        "npc_id": "ancestor_yan",
        "turn_id": 1,
        "seq": 1,
    }
    assert second["timestamp"].endswith("Z")
    assert (second["role"], second["turn_id"], second["seq"], second["id"]) == ("assistant", 1, 2, "m-2")
    assert (second["completed"], second["tokens"]) == (False, 7)
    await store.logs.complete(SCOPE, THREAD, appended.messages[1], content="家训十则", tokens=9)
    completed = json.loads((await raw.lrange(key, -1, -1))[0])
    assert {**second, "content": "家训十则", "tokens": 9} == {**completed, "completed": False}


async def test_preferences_are_a_hash(empty_server: RedisServer, raw: Redis) -> None:
    """Key, type and fields are the documented ones, the tags as a JSON array, the time as RFC 3339."""
    clock = MovableClock(NOON)
    preferences = Preferences(
        session_id="session-def456", verbosity="detailed", tone="respectful", interest_tags=["家训", "祠堂"]
    )
    async with open_store(f"{empty_server.url}?prefix=yantian", clock=clock) as store:
        await store.documents.put(SCOPE, session("session-def456"))
        await store.documents.put(SCOPE, preferences)
    key = "yantian:session:pref:yantian:yantian-main:session-def456"
    assert await raw.type(key) == "hash"
    fields = await raw.hgetall(key)
    shown = {name: fields[name] for name in ("verbosity", "tone", "language", "updated_at")}
    assert shown == {
        "verbosity": "detailed",
        "tone": "respectful",
        "language": "zh",
        "updated_at": "2026-03-01T12:00:00Z",
    }
    assert json.loads(fields["interest_tags"]) == ["家训", "祠堂"]


async def test_the_default_prefix_is_wenmai(empty_server: RedisServer, raw: Redis) -> None:
    """Without ``prefix`` every key begins with ``wenmai:``; two prefixes of one server share nothing."""
    async with open_store(empty_server.url, clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        await store.logs.append(SCOPE, THREAD, turn_of("孝"))
        assert {name.partition(":")[0] for name in await names(raw)} == {"wenmai"}
        async with open_store(f"{empty_server.url}?prefix=other", clock=system_clock) as other:
            assert await other.documents.get(SCOPE, Session, THREAD.session_id) is None


async def test_keys_of_hostile_names_are_plain_and_distinct(store: RedisStore, raw: Redis) -> None:
    """No part of a name becomes a separator, brace, glob or blank of a key, and different names have different keys."""
    await store.documents.put(SCOPE, session())
    for name in HOSTILE_KEYS:
        await store.logs.append(SCOPE, ThreadKey(THREAD.session_id, name), turn_of("孝"))
    keys = [key for key in await names(raw) if ":short:" in key]
    assert len(keys) == len(set(keys)) == len(HOSTILE_KEYS)
    for key in keys:
        assert key.count(":") == 6
        assert not set(key) & set("{}*?[]\\ \n\t")
        assert key.isascii()
    assert len({escape(name) for name in HOSTILE_KEYS}) == len(HOSTILE_KEYS)


async def test_deleted_records_leave_no_key(store: RedisStore, raw: Redis) -> None:
    """When all records are deleted the server has no key left: no index, filter, thread or numbers."""
    trace = TraceRecord(ref="t", trace_id="t", started_at=NOON, completed_at=NOON, persona_id="elder")
    await store.documents.put(SCOPE, session())
    for persona_id in ("elder", "ancestor_yan"):
        opened = [*turn_of("孝"), NewMessage(role="assistant", content="", completed=False, id="m")]
        await store.logs.append(SCOPE, ThreadKey(THREAD.session_id, persona_id), opened)
    await store.documents.put(SCOPE, trace, keep_until=system_clock() + timedelta(days=1))
    await store.documents.put(SCOPE, replace(trace, persona_id="other"))
    await store.documents.put(SCOPE, EvidenceRecord(evidence_id="e", title="", text="", source_ref="卷一"))
    assert await raw.dbsize() > 8
    await store.documents.delete(SCOPE, Session, THREAD.session_id)
    await store.documents.delete(SCOPE, TraceRecord, "t")
    await store.documents.delete(SCOPE, EvidenceRecord, "e")
    assert await names(raw) == []


async def test_a_sweep_removes_the_threads(empty_server: RedisServer, raw: Redis) -> None:
    """A session past its end is removed with all its threads, also if its id is taken again before a sweep."""
    clock = MovableClock(NOON)
    async with open_store(empty_server.url, clock=clock) as store:
        for how in ("sweep", "put"):
            await store.documents.put(SCOPE, session(), keep_until=clock() + timedelta(hours=1))
            await store.logs.append(SCOPE, THREAD, turn_of("孝"), slide=False)
            clock.advance(timedelta(hours=2))
            if how == "sweep":
                assert await store.documents.sweep() == 1
            else:
                await store.documents.put(SCOPE, session(), expected=0)
                await store.documents.delete(SCOPE, Session, THREAD.session_id)
            assert await names(raw) == []


async def test_the_server_expires_records_that_no_sweep_removed(store: RedisStore, raw: Redis) -> None:
    """With the system's clock a record with an end has the server's expiry an hour after it; one without has none."""
    end = system_clock() + timedelta(hours=1)
    await store.documents.put(SCOPE, EvidenceRecord(evidence_id="s", title="", text=""), keep_until=end)
    key = "yantian:doc:evidence:yantian:yantian-main:s"
    assert await raw.pexpiretime(key) == int((end + timedelta(hours=1)).timestamp() * 1000)
    await store.documents.put(SCOPE, EvidenceRecord(evidence_id="s", title="", text=""))
    assert await raw.pexpiretime(key) == -1


async def of_session(raw: Redis) -> dict[str, int]:
    """The keys of the session, and their remaining TTL in milliseconds."""
    return {name: await raw.pttl(name) for name in await names(raw) if THREAD.session_id in name}


async def test_every_key_of_a_session_expires_some_time_after_its_end(store: RedisStore, raw: Redis) -> None:
    """The record thirty days past the end of the session, threads and preferences not before it."""
    begun = session()
    await store.documents.put(SCOPE, begun)
    for persona_id in ("elder", "teacher"):
        await store.logs.append(SCOPE, ThreadKey(THREAD.session_id, persona_id), turn_of("孝"), slide=False)
    await store.documents.put(SCOPE, Preferences(session_id=THREAD.session_id))
    document = f"yantian:doc:conversations:yantian:yantian-main:{THREAD.session_id}"
    ends = begun.expires_at + timedelta(days=30, hours=1)
    assert await raw.pexpiretime(document) == int(ends.timestamp() * 1000)
    kept = await of_session(raw)
    assert len(kept) == 7
    assert min(kept, key=lambda name: kept[name]) == document
    assert max(kept.values()) <= kept[document] + 2 * 86_400_000


@pytest.mark.parametrize("before", ["about to expire", "of an earlier version"])
async def test_activity_extends_all_keys_of_its_session(before: str, store: RedisStore, raw: Redis) -> None:
    """An append to one thread extends the other and the preferences too; so does a change of the record."""
    begun = session()
    for how in ("append", "put"):
        await store.documents.put(SCOPE, replace(begun, expires_at=system_clock() + timedelta(hours=1)))
        for persona_id in ("elder", "teacher"):
            await store.logs.append(SCOPE, ThreadKey(THREAD.session_id, persona_id), turn_of("孝"), slide=False)
        await store.documents.put(SCOPE, Preferences(session_id=THREAD.session_id))
        for name in await of_session(raw):
            await (raw.pexpire(name, 3_600_000) if before == "about to expire" else raw.persist(name))
        if how == "append":
            await store.logs.append(SCOPE, ThreadKey(THREAD.session_id, "elder"), turn_of("悌"))
        else:
            await store.documents.put(SCOPE, begun)
        kept = await of_session(raw)
        assert len(kept) == 7
        assert min(kept.values()) > 30 * 86_400_000


async def test_a_sweep_cleans_up_after_the_servers_own_expiry(store: RedisStore, raw: Redis) -> None:
    """Records that the server has expired leave no member in any listing, filter or index."""
    soon = system_clock() + timedelta(hours=1)
    trace = TraceRecord(
        ref="t", trace_id="t", started_at=NOON, completed_at=NOON, persona_id="elder", session_id=THREAD.session_id
    )
    await store.documents.put(SCOPE, session())
    await store.documents.put(SCOPE, trace, keep_until=soon)
    await store.documents.put(
        SCOPE, EvidenceRecord(evidence_id="e", title="", text="", source_ref="卷一"), keep_until=soon
    )
    await store.documents.put(SCOPE, Preferences(session_id=THREAD.session_id))
    await store.documents.put(SCOPE, session("kept"))
    await store.logs.append(SCOPE, THREAD._replace(session_id="kept"), turn_of("孝"))
    for name in await names(raw):
        if "kept" not in name and await raw.pttl(name) > 0:
            await raw.delete(name)
    url = f"redis://127.0.0.1:{raw.connection_pool.connection_kwargs['port']}?prefix=yantian&command_timeout=5"
    async with open_store(url, clock=lambda: system_clock() + timedelta(days=40)) as later:
        assert await later.documents.sweep() == 4
        assert await later.documents.sweep() == 0
    index = "yantian:index:conversations:yantian:yantian-main:user"
    left = sorted(name for name in await names(raw) if "kept" not in name)
    assert left == ["yantian:ending", "yantian:ending:where", index]
    assert [str(member).partition(":")[2] for member in await raw.zrange(index, 0, -1)] == ["kept"]
    assert await raw.zcard("yantian:ending") == await raw.hlen("yantian:ending:where") == 1
    assert await store.documents.get(SCOPE, Session, "kept") is not None


@pytest.mark.parametrize("policy", ["allkeys-lru", "volatile-ttl"])
async def test_a_server_that_evicts_is_refused_as_the_only_store(
    policy: str, empty_server: RedisServer, raw: Redis
) -> None:
    """The error names the policy that is set and the one that is needed; as a cache the server is accepted."""
    await raw.config_set("maxmemory-policy", policy)
    try:
        with pytest.raises(StoreUnavailable, match=rf"maxmemory-policy is {policy}.*set it to noeviction"):
            async with open_store(empty_server.url, clock=system_clock):
                pass
        async with open_stores("memory://", empty_server.url) as (cached, _):
            await cached.ping()
    finally:
        await raw.config_set("maxmemory-policy", "noeviction")


async def test_a_listing_skips_evicted_records(store: RedisStore, raw: Redis) -> None:
    """An evicted record is not listed, its index member is removed, and pages stay full."""
    for number in range(5):
        await store.documents.put(SCOPE, session(f"s{number}"))
        await store.documents.put(SCOPE, Preferences(session_id=f"s{number}"))
    for number in (4, 2):
        await raw.delete(f"yantian:session:pref:yantian:yantian-main:s{number}")
    page = await store.documents.list(SCOPE, Preferences, limit=2)
    assert [stored.record.session_id for stored in page.items] == ["s3", "s1"]
    rest = await store.documents.list(SCOPE, Preferences, limit=2, cursor=page.next_cursor)
    assert [stored.record.session_id for stored in rest.items] == ["s0"]
    assert await raw.zcard("yantian:index:preferences:yantian:yantian-main:user") == 3


async def test_a_thread_that_lost_a_part_begins_anew(store: RedisStore, raw: Redis) -> None:
    """If the server evicts a thread's list or its numbers, the thread is absent and the next append begins at 1."""
    await store.documents.put(SCOPE, session())
    for part in ("short", "numbers"):
        await store.logs.append(SCOPE, THREAD, turn_of("孝"))
        await raw.delete(f"yantian:session:{part}:yantian:yantian-main:session-def456:ancestor_yan")
        assert await store.logs.read(SCOPE, THREAD) == []
        appended = await store.logs.append(SCOPE, THREAD, turn_of("悌"), tail=10)
        assert [(message.seq, message.turn_id) for message in appended.tail] == [(1, 1), (2, 1)]


async def test_a_session_that_was_evicted_leaves_nothing_to_its_successor(store: RedisStore, raw: Redis) -> None:
    """Threads of an evicted session are absent for the next session with the id, and are removed with it."""
    await store.documents.put(SCOPE, session())
    await store.logs.append(SCOPE, THREAD, turn_of("孝"))
    await raw.delete("yantian:doc:conversations:yantian:yantian-main:session-def456")
    later = SCOPE._replace(user_id="later")
    await store.documents.put(later, session(), expected=0)
    assert await store.logs.read(later, THREAD) == []
    assert await store.logs.threads(later, THREAD.session_id) == []
    appended = await store.logs.append(later, THREAD, turn_of("悌"), tail=10)
    assert [message.content for message in appended.tail] == ["悌", "悌。"]
    await store.documents.delete(later, Session, THREAD.session_id)
    assert not [key for key in await names(raw) if ":session:" in key]


async def test_flushall_makes_everything_absent(store: RedisStore, raw: Redis) -> None:
    """After FLUSHALL and SCRIPT FLUSH reads are empty, appends raise SessionNotFound, and new sessions work."""
    await store.documents.put(SCOPE, session())
    await store.logs.append(SCOPE, THREAD, turn_of("孝"))
    await raw.flushall()
    await raw.script_flush()
    assert await store.documents.get(SCOPE, Session, THREAD.session_id) is None
    assert await store.logs.latest(SCOPE, THREAD, 5) == []
    assert (await store.documents.list(SCOPE, Session)).items == []
    with pytest.raises(SessionNotFound):
        await store.logs.append(SCOPE, THREAD, turn_of("孝"))
    await store.documents.put(SCOPE, session(), expected=0)
    assert (await store.logs.append(SCOPE, THREAD, turn_of("悌"))).messages[0].seq == 1


async def test_a_full_server_refuses_and_keeps_what_it_has(store: RedisStore, raw: Redis) -> None:
    """Past ``maxmemory`` writes raise StoreUnavailable and change nothing; reads work; with room, writes work again."""
    await store.documents.put(SCOPE, session())
    await store.logs.append(SCOPE, THREAD, turn_of("孝"))
    await raw.config_set("maxmemory", "1mb")
    before = await store.documents.get(SCOPE, Session, THREAD.session_id)
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        await store.logs.append(SCOPE, THREAD, turn_of("悌"))
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        await store.documents.put(SCOPE, Preferences(session_id=THREAD.session_id))
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        await store.documents.put(SCOPE, session())
    assert len(await store.logs.read(SCOPE, THREAD)) == 2
    assert await store.documents.get(SCOPE, Session, THREAD.session_id) == before
    await raw.config_set("maxmemory", "0")
    assert (await store.logs.append(SCOPE, THREAD, turn_of("悌"))).messages[0].seq == 3
    await raw.config_set("maxmemory", "1mb")
    assert await store.documents.delete(SCOPE, Session, THREAD.session_id)
    await raw.config_set("maxmemory", "0")
    assert await names(raw) == []


CALLS: dict[str, Callable[[RedisStore], Awaitable[Any]]] = {
    "ping": lambda store: store.ping(),
    "get": lambda store: store.documents.get(SCOPE, Session, THREAD.session_id),
    "get_many": lambda store: store.documents.get_many(SCOPE, Session, ["a", "b"]),
    "put": lambda store: store.documents.put(SCOPE, EvidenceRecord(evidence_id="e", title="", text="")),
    "delete": lambda store: store.documents.delete(SCOPE, Preferences, "s"),
    "list": lambda store: store.documents.list(SCOPE, Session),
    "sweep": lambda store: store.documents.sweep(),
    "append": lambda store: store.logs.append(SCOPE, THREAD, turn_of("孝"), tail=10),
    "latest": lambda store: store.logs.latest(SCOPE, THREAD, 5),
    "read": lambda store: store.logs.read(SCOPE, THREAD),
    "complete": lambda store: store.logs.complete(SCOPE, THREAD, OPEN, content="x"),
    "truncate": lambda store: store.logs.truncate(SCOPE, THREAD, 1),
    "threads": lambda store: store.logs.threads(SCOPE, THREAD.session_id),
    "erase": lambda store: store.logs.erase(SCOPE, THREAD.session_id),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_each_call_fails_within_its_bound_and_works_again(fault: Fault, empty_server: RedisServer) -> None:
    """Every method raises StoreUnavailable in time, on open and new connections; healed, the first call works.

    Each on a store of its own, all at the same time.
    """

    async def fails(name: str, store: RedisStore) -> None:
        for attempt in ("open", "new"):
            began = monotonic()
            with pytest.raises(StoreUnavailable, match="redis is unavailable"):
                await CALLS[name](store)
            assert monotonic() - began < BOUND_SECONDS, f"{name} on a {attempt} connection"

    async with fault_proxy(empty_server.port) as proxy, AsyncExitStack() as opened:
        url = f"redis://127.0.0.1:{proxy.port}?{QUICK}"
        stores = {name: await opened.enter_async_context(open_store(url, clock=system_clock)) for name in CALLS}
        for store in stores.values():
            await store.documents.put(SCOPE, session())
        await proxy.break_with(fault)
        await asyncio.gather(*(fails(name, store) for name, store in stores.items()))
        await proxy.heal()
        for name, store in stores.items():
            await CALLS[name](store)


async def test_a_hung_server_delays_no_caller_twice(empty_server: RedisServer) -> None:
    """Of 200 callers for 4 connections none waits for the timeouts of those before it."""
    async with fault_proxy(empty_server.port) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}?{QUICK}&max_connections=4"
        async with open_store(url, clock=system_clock) as store:
            await proxy.break_with("hang")
            began = monotonic()
            outcomes = await asyncio.gather(*(store.ping() for _ in range(200)), return_exceptions=True)
            assert monotonic() - began < BOUND_SECONDS
            assert {type(outcome) for outcome in outcomes} == {StoreUnavailable}
            await proxy.heal()
            await asyncio.gather(*(store.ping() for _ in range(200)))


async def test_cancelled_callers_mix_up_no_answers(store: RedisStore) -> None:
    """Cancelled callers leave no unread reply on a connection for the next caller."""
    await store.documents.put(SCOPE, session())
    for number in range(8):
        await store.documents.put(SCOPE, session(f"s{number}"))
        await store.documents.put(SCOPE, Preferences(session_id=f"s{number}", language=f"zh-{number}"))

    async def get(number: int) -> bool:
        stored = await store.documents.get(SCOPE, Preferences, f"s{number}")
        return stored is not None and stored.record.language == f"zh-{number}"

    for delay in range(12):
        calls = [asyncio.ensure_future(get(number % 8)) for number in range(80)]
        for _ in range(delay):
            await asyncio.sleep(0)
        for call in calls[::2]:
            call.cancel()
        assert all(await asyncio.gather(*calls[1::2]))
        await asyncio.gather(*calls, return_exceptions=True)
    assert all(await asyncio.gather(*(get(number % 8) for number in range(80))))


async def test_a_killed_server_is_reported_and_taken_back(empty_server: RedisServer) -> None:
    """After SIGKILL calls raise StoreUnavailable; after the restart the first call works, on an empty server."""
    async with open_store(f"{empty_server.url}?{QUICK}", clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        await asyncio.gather(*(store.logs.append(SCOPE, THREAD, turn_of(str(number))) for number in range(40)))
        empty_server.kill()
        for call in CALLS.values():
            with pytest.raises(StoreUnavailable):
                await call(store)
        empty_server.start()
        assert await store.documents.get(SCOPE, Session, THREAD.session_id) is None
        await store.documents.put(SCOPE, session())
        assert (await store.logs.append(SCOPE, THREAD, turn_of("孝"))).messages[0].seq == 1


async def test_connections_that_the_server_closed_are_replaced(store: RedisStore, raw: Redis) -> None:
    """If the server closes idle connections, by its ``timeout`` or a restart, no call fails."""
    await asyncio.gather(*(store.ping() for _ in range(10)))
    await raw.client_kill_filter(_type="normal", skipme=True)
    await asyncio.sleep(0.05)
    await asyncio.gather(*(store.ping() for _ in range(10)))


async def test_an_absent_server_fails_at_startup() -> None:
    """The error has host and port; attaching does not connect, so the server may be down at startup."""
    url = f"redis://127.0.0.1:{free_port()}?{QUICK}"
    with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:\d+.*[Cc]onnect"):
        async with open_store(url, clock=system_clock):
            pass
    async with attach_store(url, clock=system_clock) as store:
        with pytest.raises(StoreUnavailable):
            await store.ping()


@pytest.fixture(scope="module")
def guarded_server() -> Iterator[RedisServer]:
    """A server with a password."""
    server = RedisServer("--requirepass", "s3cret:p@ss")
    server.start()
    yield server
    server.stop()


async def test_the_right_password_opens(guarded_server: RedisServer) -> None:
    """User and password may hold any character, percent-encoded."""
    async with open_store(f"redis://default:s3cret%3Ap%40ss@127.0.0.1:{guarded_server.port}", clock=system_clock) as ok:
        await ok.ping()


@pytest.mark.parametrize("user", ["", ":wr0ng-s3cret@", "unknown:wr0ng-s3cret@"])
async def test_a_wrong_password_fails_at_startup_and_is_masked(user: str, guarded_server: RedisServer) -> None:
    """The error says that the password is wrong, without showing it."""
    with pytest.raises(StoreUnavailable, match=r"(?i)auth|password") as failure:
        async with open_store(f"redis://{user}127.0.0.1:{guarded_server.port}", clock=system_clock):
            pass
    assert "s3cret" not in str(failure.value)


async def test_a_password_that_the_server_repeats_is_masked() -> None:
    """A server without AUTH repeats the unknown command; the password in it is masked."""
    server = RedisServer("--rename-command", "AUTH", "")
    server.start()
    try:
        with pytest.raises(StoreUnavailable, match=r"unknown command.*\*\*\*") as failure:
            async with open_store(f"redis://:s3cret@127.0.0.1:{server.port}", clock=system_clock):
                pass
    finally:
        server.stop()
    assert "s3cret" not in str(failure.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://",
        "redis:///0",
        "redis://host:port",
        "redis://host:99999",
        "redis://host/first",
        "redis://host/0#x",
        "redis://u:hidden@host?prefix=a:b",
        "redis://u:hidden@host?prefix=",
        "redis://u:hidden@host?prefix={a}{b}",
        "redis://u:hidden@host?command_timeout=0",
        "redis://u:hidden@host?command_timeout=soon",
        "redis://u:hidden@host?max_connections=-1",
        "redis://u:hidden@host?pasword=hidden",
        "redis://u:hidden@host:port?prefix=a",
    ],
)
def test_a_wrong_url_is_refused(url: str) -> None:
    """The error comes before any connection, and shows no password."""
    with pytest.raises(InvalidInput, match="store") as failure:
        parse_address(url)
    assert "hidden" not in str(failure.value)


def test_every_part_of_a_url_is_parsed() -> None:
    """Every part and option of a URL is used; the address shows no password."""
    address = parse_address(
        "rediss://u:p%2Fw@[::1]:6400/3?prefix={yantian}&connect_timeout=0.1&command_timeout=0.2&max_connections=5"
    )
    assert address == Address(
        host="::1",
        port=6400,
        database=3,
        username="u",
        password="p/w",  # noqa: S106 — a made-up one
        tls=True,
        prefix="{yantian}",
        connect_timeout=0.1,
        command_timeout=0.2,
        max_connections=5,
    )
    assert address.hash_tag
    assert "p/w" not in repr(address)
    assert parse_address("redis://host") == Address(host="host")


async def test_a_cluster_is_used_through_any_node(redis_cluster: list[RedisServer]) -> None:
    """With a hash tag in the prefix the store works with the URL of any node; without, the error says what to set."""
    for number, server in enumerate(redis_cluster):
        thread = ThreadKey(f"session-{number}", "elder")
        patient = "connect_timeout=5&command_timeout=5"
        async with open_store(f"{server.url}?prefix={{yantian}}&{patient}", clock=system_clock) as store:
            await store.documents.put(SCOPE, session(thread.session_id))
            await asyncio.gather(*(store.logs.append(SCOPE, thread, turn_of("孝"), tail=2) for _ in range(20)))
            assert len(await store.logs.read(SCOPE, thread)) == 40
            assert len((await store.documents.list(SCOPE, Session)).items) == number + 1
        with pytest.raises(StoreUnavailable, match=r"cluster: set \?prefix=\{yantian\}"):
            async with open_store(f"{server.url}?prefix=yantian&{patient}", clock=system_clock):
                pass


async def test_a_closed_store_refuses_work(empty_server: RedisServer) -> None:
    """No command is sent after the end of the context."""
    async with open_store(empty_server.url, clock=system_clock) as store:
        kept = store
    with pytest.raises(StoreUnavailable, match="closed"):
        await kept.ping()


async def test_a_call_that_outlasts_its_store_leaves_no_connection(empty_server: RedisServer, raw: Redis) -> None:
    """A call in progress when the context ends is answered, and its connection is closed after it."""
    async with open_store(f"{empty_server.url}?command_timeout=5", clock=system_clock) as store:
        await raw.client_pause(200)
        call = asyncio.ensure_future(store.documents.get(SCOPE, Session, "s"))
        await asyncio.sleep(0.05)
    assert await call is None
    await asyncio.sleep(0.05)
    assert len(await raw.client_list(_type="normal")) == 1
