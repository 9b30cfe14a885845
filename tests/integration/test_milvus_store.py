"""Milvus beside what every store must do: kills, erasure, a file of one process, turns without it."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pytest
from pymilvus import MilvusClient
from typer.testing import CliRunner

from milvus_server import MilvusServer
from redis_server import RedisServer, free_port
from wenmai.chat.turn import TurnRequest
from wenmai.cli.app import app
from wenmai.cli.checks import check_search
from wenmai.clock import system_clock
from wenmai.engine import load_engine_settings, open_engine
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.memory.library import Memory, required
from wenmai.memory.session_memory import SessionMemory
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.milvus import open_store as open_milvus
from wenmai.stores.milvus.address import parse_url
from wenmai.stores.milvus.client import Client, Row
from wenmai.stores.milvus.lite import lite_server
from wenmai.stores.milvus.rows import owner_of, vector_row
from wenmai.stores.milvus.stored_partition import StoredPartition
from wenmai.stores.opening import open_stores
from wenmai.stores.search_values import text_digest
from wenmai.stores.structs import CollectionSize, SearchEntry, SearchQuery

pytestmark = pytest.mark.xdist_group("milvus")

T = TypeVar("T")

LONG = " ".join(
    sha256(bytes([number % 256, number // 256])).hexdigest()[:12].translate(str.maketrans("0123456789", "ghijklmnop"))
    for number in range(10_000)
)
"""Different words of 12 letters, which no compression makes short."""

USER = Scope("default", "default", "user")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[MilvusServer]:
    """A running server."""
    server = MilvusServer(tmp_path / "server.db")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def search(conformance_milvus: str) -> AsyncIterator[Search]:
    """The search of a file that other tests use too."""
    async with open_milvus(conformance_milvus, clock=system_clock) as store:
        yield store.search


async def found(search: Search, scope: Scope, text: str, collection: str = "episodes") -> list[str]:
    """The ids found by words."""
    [hits] = await search.query(scope, collection, [SearchQuery(text=text, limit=500)])
    return [hit.id for hit in hits]


async def until_it_answers(work: Callable[[], Awaitable[T]]) -> T:
    """Retry while the driver waits before it connects again."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await work()
            except StoreUnavailable:
                await asyncio.sleep(0.1)


def file_of(url: str) -> Path:
    """The file of a URL."""
    file = parse_url(url).file
    assert file is not None
    return file


def rows_of(url: str) -> list[dict[str, str]]:
    """Every row of a file, without our code."""
    with lite_server(file_of(url)) as uri:
        client = MilvusClient(uri)
        rows = [
            {key: str(value) for key, value in row.items()}
            for collection in client.list_collections()
            for row in client.query(collection, filter='pk != ""', output_fields=["*"], limit=16_384)
        ]
        client.close()
        return rows


def continues(row: dict[str, str]) -> bool:
    """Whether the row continues another."""
    return row["pk"].partition("-")[2].isdecimal()


async def test_a_killed_server_loses_nothing_and_stops_no_turn(server: MilvusServer) -> None:
    """After ``kill -9`` amid writes, turns are degraded and searches fail; later all acknowledged is found."""
    at_once = BreakerPolicy(consecutive_failures=1, wait_seconds=0.2)
    flags = {"store": "memory://", "search": server.url, "embedder": "none"}
    settings = load_engine_settings(flags=flags, environment={}).values
    question = TurnRequest(scope=USER, persona_id="ancestor_yan", query="严氏祠堂建于何时？")
    async with (
        open_engine(settings, breaker_policy=at_once) as engine,
        open_milvus(server.url, clock=system_clock) as store,
    ):
        assert (await engine.chat.ask(question)).degraded == []
        wanted = await acknowledged_until_killed(store.search, server)
        with pytest.raises(StoreUnavailable):
            await found(store.search, USER, "灯笼")
        answer = await engine.chat.ask(question)
        assert (answer.degraded, "眼下查不到" in answer.answer_text) == (["search"], True)
        server.start()
        assert wanted <= set(await until_it_answers(partial(found, store.search, USER, "灯笼")))
        await until_it_answers(lambda: engine.evidence.find(Scope("default", "default"), question.query))
        assert (await engine.chat.ask(question)).degraded == []
    async with open_milvus(server.url, clock=system_clock) as store:
        assert wanted <= set(await found(store.search, USER, "灯笼"))
        size = await store.search.size(USER, "episodes")
        assert size.vectors == size.entries <= len(wanted) + 2
        assert all([(await found(store.search, USER, f"x{id_}x"))[0] == id_ for id_ in list(wanted)[-5:]])


async def acknowledged_until_killed(search: Search, server: MilvusServer) -> set[str]:
    """The ids that two writers had indexed when the server was killed amid their writes."""
    acknowledged: set[str] = set()
    enough = asyncio.Event()

    async def write(mark: str) -> None:
        for number in range(1_000):
            id_ = f"{mark}{number}"
            await search.index(USER, "episodes", [SearchEntry(id=id_, text=f"灯笼 x{id_}x", vector=[1.0, number])])
            acknowledged.add(id_)
            if len(acknowledged) == 40:
                enough.set()

    writers = [asyncio.create_task(write(mark)) for mark in "ab"]
    await enough.wait()
    server.kill()
    for outcome in await asyncio.gather(*writers, return_exceptions=True):
        assert isinstance(outcome, StoreUnavailable)
    return acknowledged


async def test_erased_words_are_in_no_row(search: Search, conformance_milvus: str) -> None:
    """Removed and replaced texts, short and long, are in no row of the file; what is left is found."""
    scope = Scope("erasure", "site", "user")
    texts = {"short": "quokka lantern", "long": f"quokka {LONG}", "by-filter": "quokka seed", "kept": "quokka axolotl"}
    entries = [
        SearchEntry(id=id_, text=text, vector=[1.0, 0.5], fields={"mark": f"{id_} numbat"})
        for id_, text in texts.items()
    ]
    await search.index(scope, "episodes", entries)
    assert sorted(await found(search, scope, f"{LONG[-12:]} quokka")) == sorted(texts)
    assert len([row for row in rows_of(conformance_milvus) if "quokka" in row["payload"]]) == 3
    await search.index(scope, "episodes", [SearchEntry(id="kept", text="ploughing", fields={"mark": "x"})])
    assert await search.remove(scope, "episodes", ["short", "long"]) == 2
    assert await search.remove(scope, "episodes", where={"mark": "by-filter numbat"}) == 1
    for text in ("quokka", "lantern", "seed", "axolotl", LONG[:12], LONG[-12:]):
        assert await found(search, scope, text) == []
    assert await found(search, scope, "ploughing") == ["kept"]
    assert await search.size(scope, "episodes") == CollectionSize(1, 0)
    await search.remove(scope, "episodes", ["kept"])
    pattern = ("quokka", "numbat", "ploughing")
    left = rows_of(conformance_milvus)
    assert [row for row in left if any(word in str(row) for word in pattern) or continues(row)] == []


async def test_a_long_entry_that_becomes_short_leaves_no_rows(search: Search, conformance_milvus: str) -> None:
    """An entry of several rows is replaced as a whole, and read back by another open store."""
    scope = Scope("long", "site", "user")
    for text, word, entries, rows in ((LONG, LONG[:12], ["a"], True), ("short", LONG[:12], [], False)):
        await search.index(scope, "c", [SearchEntry(id="a", text=text)])
        async with open_milvus(conformance_milvus, clock=system_clock) as other:
            assert await found(other.search, scope, word, "c") == entries
        assert any(continues(row) for row in rows_of(conformance_milvus)) is rows
    assert await search.remove(scope, "c", ["a"]) == 1


def test_a_write_of_another_process_amid_ours_is_seen(conformance_milvus: str) -> None:
    """Both processes find both entries afterwards, though each has replaced the other's version."""
    with lite_server(file_of(conformance_milvus)) as uri, closing(Client(uri)) as client:
        owner = owner_of(Scope("amid", "site", "user"), "c", shared=False)
        theirs = StoredPartition(client, owner)

        class Interrupted(Client):
            def upsert(self, collection: str, rows: Sequence[Row]) -> None:
                if not theirs.size:
                    theirs.index([SearchEntry(id="b", text="耕读", vector=[1.0])])
                super().upsert(collection, rows)

        with closing(Interrupted(uri)) as interrupted:
            ours = StoredPartition(interrupted, owner)
            ours.index([SearchEntry(id="a", text="孝悌")])
            for each in (ours, theirs):
                assert sorted(each.follow().entries) == ["a", "b"]
                assert "b" in each.partition.vectors
            assert (ours.remove(["b", "a"]), theirs.remove(["b", "a"])) == (2, 0)


def test_a_vector_that_outlived_its_text_is_ignored(conformance_milvus: str) -> None:
    """A process that died before it deleted the vector leaves an entry without one."""
    with lite_server(file_of(conformance_milvus)) as uri, closing(Client(uri)) as client:
        owner = owner_of(Scope("outlived", "site", "user"), "c", shared=False)
        written = StoredPartition(client, owner)
        written.index([SearchEntry(id="a", text="孝悌", vector=[1.0, 0.0])])
        client.upsert(owner.vectors(2), [vector_row(owner, "a", text_digest("耕读"), [0.0, 1.0], "version")])
        partition = StoredPartition(client, owner).follow()
        assert (list(partition.entries), len(partition.vectors)) == (["a"], 0)
        assert written.remove(["a"]) == 1


async def test_partitions_that_leave_memory_are_read_again(
    conformance_milvus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the scope searched last stays in memory if there is room for no more; all are found."""
    monkeypatch.setattr("wenmai.stores.milvus.search.MAX_ENTRIES", 1)
    scopes = [Scope("eviction", "site", user) for user in "abc"]
    async with open_milvus(conformance_milvus, clock=system_clock) as store:
        for scope in scopes:
            await store.search.index(scope, "c", [SearchEntry(id=scope.user_id, text="孝", vector=[1.0, 0.0])])
        assert len(store.search._partitions) == 1
        for scope in scopes:
            [hits] = await store.search.query(scope, "c", [SearchQuery(text="孝", vector=[1.0, 0.0])])
            assert [(hit.id, hit.similarity) for hit in hits] == [(scope.user_id, 1.0)]
            assert await store.search.remove(scope, "c", [scope.user_id]) == 1


async def test_closing_releases_the_file(tmp_path: Path) -> None:
    """One process may have the file open: another is refused, until the last store of the first is closed."""
    url = f"milvus:///{tmp_path}/wenmai.db"
    lock = tmp_path / "wenmai.db" / "LOCK"
    async with open_milvus(url, clock=system_clock) as first:
        async with open_milvus(url, clock=system_clock):
            pass
        await first.ping()
        with lock.open() as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with lock.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with pytest.raises(StoreUnavailable, match="one process at a time"):
            async with open_milvus(url, clock=system_clock):
                pass


async def test_an_unreachable_server_is_refused_at_the_start() -> None:
    """The error names the setting."""
    with pytest.raises(StoreUnavailable, match="search: milvus is unavailable"):
        async with open_stores("memory://", search=f"milvus://127.0.0.1:{free_port()}"):
            pass


async def test_doctor_opens_the_search(tmp_path: Path) -> None:
    """A server that does not answer is a failure; a file is not created."""
    unreachable = await check_search("search", f"milvus://127.0.0.1:{free_port()}")
    assert (unreachable.name, unreachable.state) == ("search", "fail")
    file = tmp_path / "new.db"
    assert (await check_search("evidence", f"milvus:///{file}")).state == "ok"
    assert not file.exists()


def test_workers_do_not_share_a_file() -> None:
    """Several workers over a Milvus file are refused before one is started."""
    result = CliRunner().invoke(app, ["serve", "--workers", "2"], env={"WENMAI_SEARCH": "milvus:///new.db"})
    assert result.exit_code == 2
    assert "a Milvus file belongs to one process" in result.output


async def test_search_needs_a_store_that_can_search(redis_server: RedisServer) -> None:
    """The URL of a store without search is refused; the error names the setting."""
    with pytest.raises(InvalidInput, match=r"search: .*is not the URL of a store with search"):
        async with open_stores("memory://", search=redis_server.url):
            pass


@pytest.mark.parametrize(
    ("url", "uri", "database"),
    [
        ("milvus://host", "http://host:19530", ""),
        ("milvuss://me:p%40ss@host:443/db", "https://host:443", "db"),
        ("milvus://[::1]:1/", "http://[::1]:1", ""),
    ],
)
def test_servers_are_named_by_host_and_database(url: str, uri: str, database: str) -> None:
    """Scheme, host, port and database of the URL are those of the connection."""
    address = parse_url(url)
    assert (address.uri, address.database, address.file) == (uri, database, None)
    assert address.password in {"", "p@ss"}


@pytest.mark.parametrize(
    "url",
    ["milvus://", "milvus:///", "milvus://me:secret@:1", "milvus://h:secret", "milvuss:///a.db", "milvus://h?x=secret"],
)
def test_other_urls_are_refused(url: str) -> None:
    """A URL of neither a file nor a server is refused without repeating it."""
    with pytest.raises(InvalidInput, match=r"milvus:///relative\.db") as refused:
        parse_url(url)
    assert "secret" not in str(refused.value)


async def test_the_words_of_deleted_messages_are_gone(conformance_milvus: str, tmp_path: Path) -> None:
    """Of a cut, of a cleared thread and of a deleted session, also from the entry of the message that followed."""
    said = [
        {"role": role, "content": text} for role, text in (("user", "kept"), ("user", "a lapis casket"), ("user", "ok"))
    ]
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_stores(url, search=conformance_milvus, clock=system_clock) as (store, _):
        memory = Memory(*required(store, url), search=store.search)
        memory.derived.start()
        assert memory.episodes is not None
        asked = [SearchQuery(text="lapis", limit=10)]
        removals: dict[str, Callable[[SessionMemory], Awaitable[object]]] = {
            "cut": lambda session: session.truncate(1),
            "cleared": lambda session: session.clear(),
            "deleted": lambda session: session.delete(),
        }
        for user, remove in removals.items():
            scope = Scope("erasure", "default", user)
            session = await memory.session("s", scope=scope)
            await session.append(said)
            await memory.derived.catch_up(10)
            [hits] = await memory.episodes.query(scope, asked)
            assert len(hits) == 2
            await remove(session)
            await memory.derived.catch_up(10)
            [hits] = await memory.episodes.query(scope, asked)
            assert hits == []
        await memory.derived.stop(1)
        await memory.derived.stop(1)
