"""Redis in front of PostgreSQL fails in every way, under load: no request fails, nothing is lost or read wrongly."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from time import monotonic
from typing import Any

import pytest
from http_service import Service
from msgspec.structs import replace
from redis import Redis
from tier_load import OWNER, PERSONA, TierLoad, ask, begin, below, same_as_below, tiered, turn, until

from fault_proxy import FAULTS, Fault, fault_proxy
from redis_server import RedisServer
from support import empty_database, empty_redis
from wenmai.clock import system_clock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.memory.preferences import PreferenceBook, PreferenceChange
from wenmai.memory.sessions import Sessions
from wenmai.scope import ThreadKey
from wenmai.stores.base import Appended
from wenmai.stores.breaker import BreakerPolicy
from wenmai.stores.records import Message, Session
from wenmai.stores.registry import open_store
from wenmai.stores.tiers import TieredStore, open_tiers
from wenmai.stores.tiers.copies import SessionKey
from wenmai.stores.tiers.hot import SessionCopies
from wenmai.stores.tiers.logs import TieredLogs

pytestmark = pytest.mark.xdist_group("tier faults")

WAIT = 0.5
BREAKING = BreakerPolicy(wait_seconds=WAIT)

BUSY = 2.0
"""Seconds by which a machine that runs another test beside 16 tasks may be late; alone it needs none of them."""


def hot_url(port: int) -> str:
    """A Redis with bounds that a busy machine keeps."""
    return f"redis://127.0.0.1:{port}/0?connect_timeout=0.5&command_timeout=0.7"


@asynccontextmanager
async def engine_over(database: str, redis_port: int) -> AsyncIterator[Engine]:
    """The engine over PostgreSQL with tiers."""
    loaded = load_engine_settings(flags={"store": database, "hot": hot_url(redis_port)}, environment={})
    async with open_engine(loaded.values, breaking=BREAKING) as engine:
        yield engine


@asynccontextmanager
async def tiers_over(database: str, redis_port: int, *, bound: float = 30.0) -> AsyncIterator[TieredStore]:
    """A process of its own, as far as its store goes."""
    async with (
        open_store(database) as durable,
        open_tiers(
            durable,
            hot_url(redis_port),
            clock=system_clock,
            breaking=BREAKING,
            trust_bound=timedelta(seconds=bound),
        ) as store,
    ):
        yield store


def is_open(store: TieredStore) -> bool:
    """Whether Redis is left alone and the channel is given up."""
    return store.breaker.status.state != "closed" and not heard(store)


def is_normal(store: TieredStore) -> bool:
    """Whether Redis is used, and other processes are heard."""
    return store.breaker.status.state == "closed" and heard(store)


def heard(store: TieredStore) -> bool:
    """Whether other processes' changes reach the store."""
    assert isinstance(store.logs, TieredLogs)
    heard: bool = store.logs._reading._trust.heard
    return heard


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str:
    """The URL of an empty PostgreSQL database."""
    return empty_database(request)


@pytest.fixture
def port(request: pytest.FixtureRequest, redis_server: RedisServer) -> int:
    """The port of an empty Redis."""
    empty_redis(request)
    return redis_server.port


async def must_not_be_asked(*_: object, **__: object) -> None:
    """Stands for what nobody should ask."""
    pytest.fail("it was asked")


async def answered_by_copies(store: TieredStore, load: TierLoad, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the load has written is read without the durable store."""
    with monkeypatch.context() as patched:
        patched.setattr(below(store).logs, "latest", must_not_be_asked)
        for thread in load.acknowledged:
            assert await store.logs.latest(OWNER, thread, 10)


@pytest.mark.parametrize("fault", FAULTS)
async def test_with_redis_failing_no_request_fails_or_waits_and_all_is_normal_soon_after(
    fault: Fault, database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under 16 tasks: at most one probe at a time, one per wait, and no request reaches Redis; it is told as degraded.

    Healed, it is used and heard again within wait + 1 s, and every read is right.
    """
    async with fault_proxy(port) as proxy, engine_over(database, proxy.port) as engine:
        store, client = tiered(engine), Service(engine).client
        load = TierLoad(store, engine=engine)
        await until(lambda: is_normal(store), 5)
        async with load.running(appending=12, asking=4):
            await proxy.break_with(fault)
            await until(lambda: is_open(store), 5)
            await load.all_go_on()
            await until(lambda: not proxy.standing, 2)

            proxy.count_anew()
            began = monotonic()
            with monkeypatch.context() as patched:
                for name in ("read", "_apply", "drop"):
                    patched.setattr(SessionCopies, name, must_not_be_asked)
                await load.all_go_on()
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
        await answered_by_copies(store, load, monkeypatch)


def flush(server: RedisServer) -> None:
    """Everything on the server is gone."""
    with Redis(port=server.port) as client:
        client.flushall()


def kill_and_start(server: RedisServer) -> None:
    """The process dies and another one, which knows nothing, takes its place."""
    server.kill()
    server.start()


def fill_up(policy: str, server: RedisServer) -> None:
    """No memory is left: less is allowed than an empty server takes."""
    with Redis(port=server.port) as client:
        client.config_set("maxmemory-policy", policy)
        client.config_set("maxmemory", "1mb")


def give_room(server: RedisServer) -> None:
    """As much memory as it wants."""
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
async def test_two_processes_lose_nothing_and_see_each_other_whatever_becomes_of_redis(
    event: str, database: str, port: int, redis_server: RedisServer
) -> None:
    """Under load, twice: no request fails, all that was acknowledged is there, and both read what the other writes."""
    async with tiers_over(database, port) as one, tiers_over(database, port) as other:
        load = TierLoad(one, other)
        await until(lambda: is_normal(one) and is_normal(other), 5)
        try:
            async with load.running(appending=16):
                for _ in range(2):
                    await asyncio.to_thread(EVENTS[event], redis_server)
                    await load.goes_on(150)
                await asyncio.to_thread(give_room, redis_server)
                await until(lambda: is_normal(one) and is_normal(other), 5)
                await asyncio.to_thread(EVENTS[event], redis_server)
        finally:
            await asyncio.to_thread(give_room, redis_server)
        await load.check()
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await they_see_each_other(one, other)


async def they_see_each_other(one: TieredStore, other: TieredStore) -> None:
    """Of a session that both have copies of: a record shows at once, a message within 2 s."""
    thread = ThreadKey("seen", PERSONA)
    await begin(one, "seen")
    for writer, reader in ((one, other), (other, one), (one, other)):
        await writer.logs.append(OWNER, thread, turn("seen by both"))
        await same_as_below(reader, thread)
        stored = await writer.documents.get(OWNER, Session, "seen")
        assert stored is not None
        renamed = replace(stored.record, title=f"named {stored.version} times")
        await writer.documents.put(OWNER, renamed, expected=stored.version)
        seen = await reader.documents.get(OWNER, Session, "seen")
        assert seen is not None
        assert seen.record.title == renamed.title


async def test_what_a_writer_that_is_cut_off_writes_shows_within_the_bound_of_trust(database: str, port: int) -> None:
    """Redis hangs for the writer alone: the reader, whose channel stands, believes its copies for a second at most."""
    thread = ThreadKey("seen", PERSONA)
    async with (
        fault_proxy(port) as proxy,
        tiers_over(database, proxy.port) as writer,
        tiers_over(database, port, bound=1.0) as reader,
    ):
        await begin(writer, "seen")
        await writer.logs.append(OWNER, thread, turn("before"))
        await same_as_below(reader, thread)
        await proxy.break_with("hang")
        for number in range(3):
            await writer.logs.append(OWNER, thread, turn(f"cut off {number}"))
            await same_as_below(reader, thread, within=1.5)
        assert is_normal(reader)


async def test_what_a_writer_wrote_while_it_was_cut_off_is_told_when_its_link_heals(database: str, port: int) -> None:
    """The reader would believe its copies for long; it is told of the change soon after the link is there again."""
    thread = ThreadKey("seen", PERSONA)
    async with (
        fault_proxy(port) as proxy,
        tiers_over(database, proxy.port) as writer,
        tiers_over(database, port, bound=3_600) as reader,
    ):
        await until(lambda: is_normal(reader) and is_normal(writer), 5)
        await begin(writer, "seen")
        await writer.logs.append(OWNER, thread, turn("before"))
        await same_as_below(reader, thread)
        await proxy.break_with("hang")
        await until(lambda: not heard(writer), 5)
        await writer.logs.append(OWNER, thread, turn("cut off"))
        await PreferenceBook(writer.documents).set(OWNER, "seen", PreferenceChange(tone="casual"))
        assert len(await reader.logs.latest(OWNER, thread, 10)) == 2, "nobody has told it"
        await proxy.heal()
        await until(lambda: is_normal(writer), WAIT + 1 + BUSY)
        await same_as_below(reader, thread, within=2.0)


async def test_a_write_that_is_done_after_its_caller_has_gone_shows(
    database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies that were made between the cancellation and the commit are not believed after it, in either process."""
    thread, go_on = ThreadKey("seen", PERSONA), asyncio.Event()
    async with tiers_over(database, port) as one, tiers_over(database, port) as other:
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await begin(one, "seen")
        await one.logs.append(OWNER, thread, turn("before"))
        append = below(one).logs.append

        async def slow(*arguments: Any, **named: Any) -> Appended:
            await go_on.wait()
            return await append(*arguments, **named)

        monkeypatch.setattr(below(one).logs, "append", slow)
        writing = asyncio.create_task(one.logs.append(OWNER, thread, turn("late")))
        await asyncio.sleep(0.01)
        writing.cancel()
        await asyncio.wait([writing])
        for store in (one, other):
            await same_as_below(store, thread)
        go_on.set()
        async with asyncio.timeout(2):
            while len(await below(one).logs.latest(OWNER, thread, 9)) < 4:  # noqa: ASYNC110 — the commit sets no event
                await asyncio.sleep(0.01)
        for store in (one, other):
            await same_as_below(store, thread)


async def test_a_read_before_redis_is_told_of_a_change_does_not_bring_the_old_copy_back(
    database: str, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a session whose copy the process had no room for: one reads what one has written, then and afterwards."""
    thread, go_on, reached = ThreadKey("seen", PERSONA), asyncio.Event(), asyncio.Event()
    async with tiers_over(database, port) as store:
        await until(lambda: is_normal(store), 5)
        await begin(store, "seen")
        await store.logs.append(OWNER, thread, turn("before"))
        tell = SessionCopies.append

        async def slow(*arguments: Any) -> None:
            reached.set()
            await go_on.wait()
            await tell(*arguments)

        monkeypatch.setattr(SessionCopies, "append", slow)
        writing = asyncio.create_task(store.logs.append(OWNER, thread, turn("after")))
        await reached.wait()
        store.copies.forget(SessionKey.of(OWNER, "seen"))
        assert len(await store.logs.latest(OWNER, thread, 9)) == 4
        go_on.set()
        await writing
        assert len(await store.logs.latest(OWNER, thread, 9)) == 4


@pytest.mark.parametrize("what", ["thread", "session", "session of another"])
async def test_what_a_process_that_is_cut_off_deletes_is_not_mixed_with_what_begins_again(
    what: str, database: str, port: int
) -> None:
    """Another process, which holds copies and was not told, reads what it writes anew and no more."""
    thread = ThreadKey("reborn", PERSONA)
    heir = OWNER._replace(user_id="heir") if what == "session of another" else OWNER
    async with (
        fault_proxy(port) as proxy,
        tiers_over(database, proxy.port) as one,
        tiers_over(database, port, bound=3_600) as other,
    ):
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await begin(one, "reborn")
        for _ in range(4):
            await one.logs.append(OWNER, thread, turn("canary"))
        assert len(await other.logs.latest(OWNER, thread, 40)) == 8
        await proxy.break_with("hang")
        await until(lambda: not heard(one), 5)
        await one.logs.erase(OWNER, "reborn", PERSONA)
        if what != "thread":
            assert await one.documents.delete(OWNER, Session, "reborn")
            await begin(other, "reborn", heir)
        again: list[Message] = []
        for number in range(3):
            if what != "thread":
                async with tiers_over(database, port) as third:
                    assert await third.logs.latest(heir, thread, 40) == again
            again += (await other.logs.append(heir, thread, turn(f"again {number}"))).messages
            assert await other.logs.latest(heir, thread, 40) == again
            async with tiers_over(database, port) as third:
                assert await third.logs.latest(heir, thread, 40) == again
        await proxy.heal()
        await until(lambda: is_normal(one) and "canary" not in texts_on(port), WAIT + 1 + BUSY)
        for store in (one, other):
            assert await store.logs.latest(heir, thread, 40) == again


def texts_on(port: int) -> str:
    """Everything that a server holds, keys and values of every type, as one text."""
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


async def talk_of(store: TieredStore, session_id: str, *npc_ids: str) -> None:
    """A session with secrets in its title, its preferences and its threads."""
    await begin(store, session_id)
    stored = await store.documents.get(OWNER, Session, session_id)
    assert stored is not None
    await store.documents.put(OWNER, replace(stored.record, title="canary title"), expected=stored.version)
    await PreferenceBook(store.documents).set(OWNER, session_id, PreferenceChange(add_interest_tags=["canary tag"]))
    for npc_id in npc_ids:
        await store.logs.append(OWNER, ThreadKey(session_id, npc_id), turn(f"canary of {npc_id}"))


@pytest.mark.parametrize("away", ["there", "away", "evicted"])
@pytest.mark.parametrize("what", ["session", "thread"])
async def test_what_is_deleted_leaves_no_word_on_redis(what: str, away: str, database: str, port: int) -> None:
    """Also if Redis was away at that moment and came back with all it held, or had lost what it knew of the copy.

    A deleted thread that begins again begins empty, for another process too.
    """
    async with (
        fault_proxy(port) as proxy,
        tiers_over(database, proxy.port) as one,
        tiers_over(database, port, bound=2.0) as other,
    ):
        await until(lambda: is_normal(one) and is_normal(other), 5)
        await talk_of(one, "deleted", "elder", "teacher")
        await begin(one, "kept")
        await one.logs.append(OWNER, ThreadKey("kept", "elder"), turn("kept"))
        assert texts_on(port).count("canary") >= 6
        assert await other.logs.latest(OWNER, ThreadKey("deleted", "elder"), 10)
        if away == "away":
            await proxy.break_with("refuse")
            await until(lambda: not heard(one), 5)
        elif away == "evicted":
            with Redis(port=port) as client:
                assert client.delete("wenmai:session:copy:default:default:deleted")
        sessions = Sessions(one.documents, one.logs, system_clock, lifetime=timedelta(hours=1))
        if what == "session":
            assert await sessions.delete(OWNER, "deleted")
        else:
            await sessions.forget_persona(OWNER, "deleted", "elder")
        if away == "away":
            assert "canary of elder" in texts_on(port)
            await proxy.heal()
            await until(lambda: is_normal(one), WAIT + 1 + BUSY)
            await until(lambda: "canary of elder" not in texts_on(port), 2)
        held = texts_on(port)
        assert "canary of elder" not in held
        assert "kept" in held
        if what == "session":
            assert "canary" not in held
            await begin(other, "deleted")
        thread = ThreadKey("deleted", "elder")
        again = (await other.logs.append(OWNER, thread, turn("again"))).messages
        assert [message.seq for message in again] == [1, 2]
        for store in (one, other):
            await same_as_below(store, thread)
            assert await store.logs.latest(OWNER, thread, 10) == again
