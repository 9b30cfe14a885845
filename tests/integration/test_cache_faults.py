"""Redis in front of PostgreSQL fails in every way, under load: no request fails, no data is lost or read wrongly."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

import pytest
from cache_load import OWNER, PERSONA, CacheLoad, ask, begin, cached_store, durable_of, same_as_durable, turn, until
from http_service import Service
from msgspec.structs import replace
from redis import Redis

from fault_proxy import FAULTS, Fault, fault_proxy
from redis_server import RedisServer
from support import empty_database, empty_redis
from wenmai.clock import system_clock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.memory.preferences import PreferenceBook, PreferenceChange
from wenmai.memory.sessions import Sessions, SessionTerms
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.scope import ThreadKey
from wenmai.stores.cache import CachedStore, open_cache
from wenmai.stores.cache.entries import SessionKey
from wenmai.stores.cache.logs import CachedLogs
from wenmai.stores.cache.redis_cache import RedisSessionCache
from wenmai.stores.opening import open_store
from wenmai.stores.records import Message, Session
from wenmai.stores.structs import Appended

pytestmark = pytest.mark.xdist_group("cache faults")

WAIT = 0.5
BREAKING = BreakerPolicy(wait_seconds=WAIT)

BUSY = 2.0
"""Seconds by which a machine that runs another test beside 16 tasks may be late; alone it needs none of them."""


def hot_url(port: int) -> str:
    """A Redis URL with timeouts that a busy machine keeps."""
    return f"redis://127.0.0.1:{port}/0?connect_timeout=0.5&command_timeout=0.7"


@asynccontextmanager
async def engine_over(database: str, redis_port: int) -> AsyncIterator[Engine]:
    """The engine over PostgreSQL with a cache."""
    loaded = load_engine_settings(
        flags={"embedder": "none", "store": database, "hot": hot_url(redis_port)}, environment={}
    )
    async with open_engine(loaded.values, breaker_policy=BREAKING) as engine:
        yield engine


@asynccontextmanager
async def cache_over(database: str, redis_port: int, *, max_age: float = 30.0) -> AsyncIterator[CachedStore]:
    """A cached store, like that of another process."""
    async with (
        open_store(database) as durable,
        open_cache(
            durable,
            hot_url(redis_port),
            clock=system_clock,
            breaker_policy=BREAKING,
            max_age=timedelta(seconds=max_age),
        ) as store,
    ):
        yield store


def is_open(store: CachedStore) -> bool:
    """Whether the breaker is open and the channel is down."""
    return store.breaker.status.state != "closed" and not subscribed(store)


def is_normal(store: CachedStore) -> bool:
    """Whether Redis is used, and the store is subscribed to other processes' changes."""
    return store.breaker.status.state == "closed" and subscribed(store)


def subscribed(store: CachedStore) -> bool:
    """Whether the store receives other processes' changes."""
    assert isinstance(store.logs, CachedLogs)
    subscribed: bool = store.logs._read_through._freshness.subscribed
    return subscribed


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty PostgreSQL database."""
    return empty_database(request)


@pytest.fixture
def port(request: pytest.FixtureRequest, redis_server: RedisServer) -> int:
    """The port of an empty Redis."""
    empty_redis(request)
    return redis_server.port


async def must_not_be_called(*_: object, **__: object) -> None:
    """In the place of a method that must not be called."""
    pytest.fail("it was called")


async def answered_by_the_cache(store: CachedStore, load: CacheLoad, monkeypatch: pytest.MonkeyPatch) -> None:
    """The load's writes are read without the durable store."""
    with monkeypatch.context() as patched:
        patched.setattr(durable_of(store).logs, "latest", must_not_be_called)
        for thread in load.acknowledged:
            assert await store.logs.latest(OWNER, thread, 10)


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failing_redis_fails_or_delays_no_request(
    fault: Fault, database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under 16 tasks: at most one probe at a time, one per wait, and no request reaches Redis; answers are degraded.

    Healed, it is used and subscribed to again within wait + 1 s, and every read is right.
    """
    async with fault_proxy(port) as proxy, engine_over(database, proxy.port) as engine:
        store, client = cached_store(engine), Service(engine).client
        load = CacheLoad(store, engine=engine)
        await until(lambda: is_normal(store), 5)
        async with load.running(appending=12, asking=4):
            await proxy.break_with(fault)
            await until(lambda: is_open(store), 5)
            await load.a_full_iteration()
            await until(lambda: not proxy.standing, 2)

            proxy.count_anew()
            began = monotonic()
            with monkeypatch.context() as patched:
                for name in ("read", "_apply", "drop"):
                    patched.setattr(RedisSessionCache, name, must_not_be_called)
                await load.a_full_iteration()
                await asyncio.sleep(max(0.0, began + 3 * WAIT - monotonic()))
            assert proxy.accepted <= (monotonic() - began) / WAIT + 1
            assert proxy.most_standing <= 1
            answer = await ask(engine)
            assert answer.degraded == ["redis"]
            assert (await engine.traces.get(OWNER, answer.trace_id)).record.degraded == ["redis"]
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["status"], ready.json()["degraded"]) == (200, "degraded", ["redis"])
            assert ready.json()["breakers"]["redis"]["state"] in {"open", "half_open"}

            await proxy.heal()
            await until(lambda: is_normal(store), WAIT + 1 + BUSY)
        assert (await ask(engine)).degraded == []
        assert (await client.get("/readyz")).json()["status"] == "ok"
        await load.check()
        await answered_by_the_cache(store, load, monkeypatch)


def flush(server: RedisServer) -> None:
    """Delete all keys of the server."""
    with Redis(port=server.port) as client:
        client.flushall()


def kill_and_start(server: RedisServer) -> None:
    """Kill the server and start an empty one in its place."""
    server.kill()
    server.start()


def fill_up(policy: str, server: RedisServer) -> None:
    """Allow less memory than an empty server takes."""
    with Redis(port=server.port) as client:
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", "1mb")


def give_room(server: RedisServer) -> None:
    """Remove the limit on memory."""
    with Redis(port=server.port) as client:
        client.config_set("maxmemory", 0)
        client.config_set("maxmemory-policy", "noeviction")


def cut(kind: str, server: RedisServer) -> None:
    """End all connections of a kind from the server's side."""
    with Redis(port=server.port) as client:
        client.execute_command("CLIENT KILL TYPE", kind)


EVENTS: dict[str, Callable[[RedisServer], None]] = {
    "FLUSHALL": flush,
    "kill -9": kill_and_start,
    "maxmemory, noeviction": partial(fill_up, "noeviction"),
    "maxmemory, allkeys-lru": partial(fill_up, "allkeys-lru"),
    "CLIENT KILL pubsub": partial(cut, "pubsub"),
    "CLIENT KILL normal": partial(cut, "normal"),
}


@pytest.mark.parametrize("event", EVENTS)
async def test_two_processes_stay_consistent_through_redis_failures(
    event: str, database: str, port: int, redis_server: RedisServer
) -> None:
    """Under load, twice: no request fails, all acknowledged writes are there, and both read the other's writes."""
    async with cache_over(database, port) as one, cache_over(database, port) as other:
        load = CacheLoad(one, other)
        await until(lambda: is_normal(one) and is_normal(other), 5)
        try:
            async with load.running(appending=16):
                for _ in range(2):
                    await asyncio.to_thread(EVENTS[event], redis_server)
                    await load.more_iterations(150)
                await asyncio.to_thread(give_room, redis_server)
                await until(lambda: is_normal(one) and is_normal(other), 5)
                await asyncio.to_thread(EVENTS[event], redis_server)
        finally:
            await asyncio.to_thread(give_room, redis_server)
        await load.check()
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await both_see_each_others_writes(one, other)


async def both_see_each_others_writes(one: CachedStore, other: CachedStore) -> None:
    """Of a session that both have cached: a record is seen at once, a message within 2 s."""
    thread = ThreadKey("seen", PERSONA)
    await begin(one, "seen")
    for writer, reader in ((one, other), (other, one), (one, other)):
        await writer.logs.append(OWNER, thread, turn("seen by both"))
        await same_as_durable(reader, thread)
        stored = await writer.documents.get(OWNER, Session, "seen")
        assert stored is not None
        renamed = replace(stored.record, title=f"named {stored.version} times")
        await writer.documents.put(OWNER, renamed, expected=stored.version)
        seen = await reader.documents.get(OWNER, Session, "seen")
        assert seen is not None
        assert seen.record.title == renamed.title


async def test_writes_of_a_partitioned_process_are_seen_within_the_maximal_age(database: str, port: int) -> None:
    """Redis hangs for the writer alone: the reader, which is subscribed, has fresh entries for at most a second."""
    thread = ThreadKey("seen", PERSONA)
    async with (
        fault_proxy(port) as proxy,
        cache_over(database, proxy.port) as writer,
        cache_over(database, port, max_age=1.0) as reader,
    ):
        await begin(writer, "seen")
        await writer.logs.append(OWNER, thread, turn("before"))
        await same_as_durable(reader, thread)
        await proxy.break_with("hang")
        for number in range(3):
            await writer.logs.append(OWNER, thread, turn(f"cut off {number}"))
            await same_as_durable(reader, thread, within=1.5)
        assert is_normal(reader)


async def test_pending_invalidations_are_sent_when_the_link_heals(database: str, port: int) -> None:
    """The reader's entries would be fresh for long; it receives the change soon after the link has healed."""
    thread = ThreadKey("seen", PERSONA)
    async with (
        fault_proxy(port) as proxy,
        cache_over(database, proxy.port) as writer,
        cache_over(database, port, max_age=3_600) as reader,
    ):
        await until(lambda: is_normal(reader) and is_normal(writer), 5)
        await begin(writer, "seen")
        await writer.logs.append(OWNER, thread, turn("before"))
        await same_as_durable(reader, thread)
        await proxy.break_with("hang")
        await until(lambda: not subscribed(writer), 5)
        await writer.logs.append(OWNER, thread, turn("cut off"))
        await PreferenceBook(writer.documents).set(OWNER, "seen", PreferenceChange(tone="casual"))
        assert len(await reader.logs.latest(OWNER, thread, 10)) == 2, "the change was not published yet"
        await proxy.heal()
        await until(lambda: is_normal(writer), WAIT + 1 + BUSY)
        # The invalidations are sent after the link is normal again, not at that moment.
        await same_as_durable(reader, thread, within=2.0, attempts=200)


async def test_a_write_committed_after_its_cancellation_is_seen(
    database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entries filled between the cancellation and the commit are stale after it, in both processes."""
    thread, go_on = ThreadKey("seen", PERSONA), asyncio.Event()
    async with cache_over(database, port) as one, cache_over(database, port) as other:
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await begin(one, "seen")
        await one.logs.append(OWNER, thread, turn("before"))
        append = durable_of(one).logs.append

        async def slow(*arguments: Any, **named: Any) -> Appended:
            await go_on.wait()
            return await append(*arguments, **named)

        monkeypatch.setattr(durable_of(one).logs, "append", slow)
        writing = asyncio.create_task(one.logs.append(OWNER, thread, turn("late")))
        await asyncio.sleep(0.01)
        writing.cancel()
        await asyncio.wait([writing])
        for store in (one, other):
            await same_as_durable(store, thread)
        go_on.set()
        async with asyncio.timeout(2):
            while len(await durable_of(one).logs.latest(OWNER, thread, 9)) < 4:  # noqa: ASYNC110 — the commit sets no event
                await asyncio.sleep(0.01)
        for store in (one, other):
            await same_as_durable(store, thread)


async def test_a_read_during_propagation_does_not_restore_the_old_entry(
    database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session that was evicted locally: the process reads its own write, then and afterwards."""
    thread, go_on, reached = ThreadKey("seen", PERSONA), asyncio.Event(), asyncio.Event()
    async with cache_over(database, port) as store:
        await until(lambda: is_normal(store), 5)
        await begin(store, "seen")
        await store.logs.append(OWNER, thread, turn("before"))
        propagate = RedisSessionCache.append

        async def slow(*arguments: Any) -> None:
            reached.set()
            await go_on.wait()
            await propagate(*arguments)

        monkeypatch.setattr(RedisSessionCache, "append", slow)
        writing = asyncio.create_task(store.logs.append(OWNER, thread, turn("after")))
        await reached.wait()
        store.local.drop(SessionKey.of(OWNER, "seen"))
        assert len(await store.logs.latest(OWNER, thread, 9)) == 4
        go_on.set()
        await writing
        assert len(await store.logs.latest(OWNER, thread, 9)) == 4


@pytest.mark.parametrize("what", ["thread", "session", "session of another"])
async def test_a_deletion_by_a_partitioned_process_is_not_mixed_with_a_new_thread(
    what: str, database: str, port: int
) -> None:
    """Another process, with entries and without the invalidation, reads its own new messages and no others."""
    thread = ThreadKey("reborn", PERSONA)
    heir = OWNER._replace(user_id="heir") if what == "session of another" else OWNER
    async with (
        fault_proxy(port) as proxy,
        cache_over(database, proxy.port) as one,
        cache_over(database, port, max_age=3_600) as other,
    ):
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await begin(one, "reborn")
        for _ in range(4):
            await one.logs.append(OWNER, thread, turn("canary"))
        assert len(await other.logs.latest(OWNER, thread, 40)) == 8
        await proxy.break_with("hang")
        await until(lambda: not subscribed(one), 5)
        await one.logs.erase(OWNER, "reborn", PERSONA)
        if what != "thread":
            assert await one.documents.delete(OWNER, Session, "reborn")
            await begin(other, "reborn", heir)
        again: list[Message] = []
        for number in range(3):
            if what != "thread":
                async with cache_over(database, port) as third:
                    assert await third.logs.latest(heir, thread, 40) == again
            again += (await other.logs.append(heir, thread, turn(f"again {number}"))).messages
            assert await other.logs.latest(heir, thread, 40) == again
            async with cache_over(database, port) as third:
                assert await third.logs.latest(heir, thread, 40) == again
        await proxy.heal()
        await until(lambda: is_normal(one) and "canary" not in texts_on(port), WAIT + 1 + BUSY)
        for store in (one, other):
            assert await store.logs.latest(heir, thread, 40) == again


def texts_on(port: int) -> str:
    """All keys and values of a server as one text."""
    with Redis(port=port) as client:
        found = []
        for key in client.scan_iter():
            found.append(key)
            match client.type(key):
                case b"list":
                    found += client.lrange(key, 0, -1)
                case b"hash":
                    found += [part for pair in client.hgetall(key).items() for part in pair]
                case b"string":
                    found.append(client.get(key) or b"")
                case other:
                    raise AssertionError(other)
    return b"\n".join(found).decode(errors="replace")


async def conversation_of(store: CachedStore, session_id: str, *persona_ids: str) -> None:
    """A session with canaries in its title, its preferences and its threads."""
    await begin(store, session_id)
    stored = await store.documents.get(OWNER, Session, session_id)
    assert stored is not None
    await store.documents.put(OWNER, replace(stored.record, title="canary title"), expected=stored.version)
    await PreferenceBook(store.documents).set(OWNER, session_id, PreferenceChange(add_interest_tags=["canary tag"]))
    for persona_id in persona_ids:
        await store.logs.append(OWNER, ThreadKey(session_id, persona_id), turn(f"canary of {persona_id}"))


@pytest.mark.parametrize("away", ["there", "away", "evicted"])
@pytest.mark.parametrize("what", ["session", "thread"])
async def test_deleted_text_is_removed_from_redis(what: str, away: str, database: str, port: int) -> None:
    """Also if Redis was down at that moment and came back with its data, or had evicted the entry's metadata.

    A deleted thread that begins again begins empty, for another process too.
    """
    async with (
        fault_proxy(port) as proxy,
        cache_over(database, proxy.port) as one,
        cache_over(database, port, max_age=2.0) as other,
    ):
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await conversation_of(one, "deleted", "elder", "teacher")
        await begin(one, "kept")
        await one.logs.append(OWNER, ThreadKey("kept", "elder"), turn("kept"))
        assert texts_on(port).count("canary") >= 6
        assert await other.logs.latest(OWNER, ThreadKey("deleted", "elder"), 10)
        if away == "away":
            await proxy.break_with("refuse")
            await until(lambda: not subscribed(one), 5)
        elif away == "evicted":
            with Redis(port=port) as client:
                assert client.delete("wenmai:session:copy:default:default:deleted")
        sessions = Sessions(one.documents, one.logs, system_clock, terms=SessionTerms(timedelta(hours=1)))
        if what == "session":
            assert await sessions.delete(OWNER, "deleted")
        else:
            await sessions.delete_thread(OWNER, "deleted", "elder")
        if away == "away":
            assert "canary of elder" in texts_on(port)
            await proxy.heal()
            await until(lambda: is_normal(one), WAIT + 1 + BUSY)
            await until(lambda: "canary of elder" not in texts_on(port), 2)
        left = texts_on(port)
        assert "canary of elder" not in left
        assert "kept" in left
        if what == "session":
            assert "canary" not in left
            await begin(other, "deleted")
        thread = ThreadKey("deleted", "elder")
        again = (await other.logs.append(OWNER, thread, turn("again"))).messages
        assert [message.seq for message in again] == [1, 2]
        for store in (one, other):
            await same_as_durable(store, thread)
            assert await store.logs.latest(OWNER, thread, 10) == again
