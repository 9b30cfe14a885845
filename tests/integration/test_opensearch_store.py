"""OpenSearch beside what every store must do: kills, unrefreshed indices, writers that die, upgrades, erasure."""

import asyncio
import json
import signal
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from secrets import token_hex
from typing import Any

import pytest

from fault_proxy import fault_proxy
from opensearch_server import OpenSearchServer
from wenmai.chat.turn import TurnRequest
from wenmai.clock import MovableClock
from wenmai.engine import load_engine_settings, open_engine
from wenmai.errors import SessionNotFound, StoreTooNew, StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.elasticsearch import ElasticsearchStore, open_store, schema_at
from wenmai.stores.elasticsearch.commits import Commits
from wenmai.stores.elasticsearch.heads import Head
from wenmai.stores.elasticsearch.indices import SCHEMA_VERSION
from wenmai.stores.records import Message, NewMessage, Preferences, Session
from wenmai.stores.structs import SearchEntry, SearchQuery
from wenmai.stores.upgrades import Schema

pytestmark = pytest.mark.xdist_group("opensearch")

SCOPE = Scope("tenant", "site", "user")
THREAD = ThreadKey("session-1", "elder")
TURNS = 64
CLOCK = MovableClock()


@pytest.fixture
def url(opensearch_server: OpenSearchServer) -> Iterator[str]:
    """The URL of a store with indices of its own, which are removed afterwards."""
    url = f"{opensearch_server.url(f'test{token_hex(4)}')}?timeout=20"
    yield url
    raw(url, "/{}_*", method="DELETE")


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[ElasticsearchStore]:
    """The store at the URL, with ``session-1``."""
    async with open_store(url, clock=CLOCK) as store:
        if await store.documents.get(SCOPE, Session, "session-1") is None:
            await store.documents.put(SCOPE, session())
        yield store


def session() -> Session:
    """A session of a day."""
    return Session(session_id="session-1", expires_at=CLOCK().replace(year=2030), lifetime_seconds=86_400)


def turn(number: int) -> list[NewMessage]:
    """A question and its answer, with ids."""
    return [NewMessage(role=role, content=f"{role} {number}", id=f"{role}-{number}") for role in ("user", "assistant")]


def raw(url: str, path: str, body: object = None, method: str = "GET") -> Any:
    """The answer of the node to a request about the store's indices, without our code; ``{}`` is their prefix."""
    location, _, prefix = url.partition("?")[0].rpartition("/")
    request = urllib.request.Request(  # noqa: S310 — the test's own server
        location.replace("opensearch", "http") + path.format(prefix),
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:  # noqa: S310
        return json.loads(answer.read())


def documents_in(url: str, index: str = "*") -> list[dict[str, Any]]:
    """All documents of the store, or of one index."""
    raw(url, f"/{{}}_{index}/_refresh", method="POST")
    found = raw(url, f"/{{}}_{index}/_search?size=10000&expand_wildcards=all")
    return [hit["_source"] for hit in found["hits"]["hits"]]


async def until_stored(store: ElasticsearchStore, number: int) -> list[Message]:
    """Append a turn, again after each failure, as a client does."""
    async with asyncio.timeout(60):
        while True:
            try:
                return (await store.logs.append(SCOPE, THREAD, turn(number), tail=4)).messages
            except StoreUnavailable:
                await asyncio.sleep(0.05)


async def test_quick_turns_are_numbered_without_any_refresh(url: str) -> None:
    """64 successive turns through two stores are 1 to 64, and each sees the ones before, which no search would."""
    async with opened(url) as store, opened(url) as other:
        raw(url, "/{}_*/_settings", {"index": {"refresh_interval": "-1"}}, "PUT")
        for number in range(1, TURNS + 1):
            appended = await (store, other)[number % 2].logs.append(SCOPE, THREAD, turn(number), tail=4)
            assert [message.turn_id for message in appended.messages] == [number, number]
            assert [message.turn_id for message in appended.tail[:-2]] == [number - 1] * 2 * (number > 1)
        read = await other.logs.latest(SCOPE, THREAD, 500)
    assert [message.content for message in read[::2]] == [f"user {number}" for number in range(1, TURNS + 1)]
    stored = sorted((each["seq"], each["turn_id"], each["content"]) for each in documents_in(url, "l1_memory"))
    assert stored == [(message.seq, message.turn_id, message.content) for message in read]


async def test_a_killed_node_loses_no_turn_and_doubles_none(url: str, opensearch_server: OpenSearchServer) -> None:
    """64 turns over ``kill -9`` are numbered 1 to 64, and what was acknowledged before it is unchanged."""
    acknowledged: list[Message] = []
    halfway = asyncio.Event()

    async def restart() -> None:
        await halfway.wait()
        await asyncio.to_thread(opensearch_server.kill)
        await asyncio.to_thread(opensearch_server.start)

    async with opened(url) as store:
        restarting = asyncio.create_task(restart())
        for number in range(1, TURNS + 1):
            acknowledged += await until_stored(store, number)
            if number == TURNS // 2:
                halfway.set()
        await restarting
        assert await store.logs.read(SCOPE, THREAD) == acknowledged
        [info] = await store.logs.threads(SCOPE, "session-1")
    assert [message.turn_id for message in acknowledged[::2]] == list(range(1, TURNS + 1))
    assert (info.message_count, info.turn_count) == (2 * TURNS, TURNS)


async def test_what_a_dead_writer_left_is_repaired(url: str) -> None:
    """Messages beyond the head are ignored; those that only the head has are read, and written with the next turn."""
    async with opened(url) as store:
        await store.logs.append(SCOPE, THREAD, turn(1))
        [head] = [each for each in documents_in(url, "thread") if "head" in each]
    place = f"/{{}}_l1_memory/_doc/{head['label']}-{{}}?routing={head['session']}"
    raw(url, place.replace("-{}", "-2"), method="DELETE")
    beyond = {"session_id": "session-1", "thread": head["label"], "seq": 3, "content": "of a dead writer"}
    raw(url, f"{place.replace('-{}', '-3')}&version_type=external&version=8", beyond, "PUT")
    async with opened(url) as other:
        read = await other.logs.read(SCOPE, THREAD)
        assert [message.content for message in read] == ["user 1", "assistant 1"]
        await other.logs.append(SCOPE, THREAD, turn(2))
    stored = sorted((each["seq"], each["content"]) for each in documents_in(url, "l1_memory"))
    assert stored == [(1, "user 1"), (2, "assistant 1"), (3, "user 2"), (4, "assistant 2")]


async def test_writers_that_race_leave_whole_copies(url: str) -> None:
    """After four stores raced for one thread, its documents are the messages, one each."""
    async with opened(url) as one, opened(url) as two, opened(url) as three, opened(url) as four:
        stores = (one, two, three, four)
        await asyncio.gather(*(stores[n % 4].logs.append(SCOPE, THREAD, turn(n)) for n in range(40)))
        await one.logs.append(SCOPE, THREAD, turn(40))
        read = await two.logs.read(SCOPE, THREAD)
    stored = sorted((each["seq"], each["content"]) for each in documents_in(url, "l1_memory"))
    assert stored == [(message.seq, message.content) for message in read]
    assert [message.turn_id for message in read[::2]] == list(range(1, 42))


async def test_appends_race_with_a_delete_and_leave_nothing(url: str) -> None:
    """Appends during a delete are stored before it or find no session; afterwards no document of it is left."""
    async with opened(url) as store, opened(url) as other:
        for _ in range(4):
            if await store.documents.get(SCOPE, Session, "session-1") is None:
                await store.documents.put(SCOPE, session())
            await store.documents.put(SCOPE, Preferences(session_id="session-1"))
            outcomes = await asyncio.gather(
                *(
                    (store, other)[n % 2].logs.append(SCOPE, ThreadKey("session-1", f"npc-{n % 4}"), turn(n))
                    for n in range(12)
                ),
                store.documents.delete(SCOPE, Session, "session-1"),
                return_exceptions=True,
            )
            assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {SessionNotFound}
        await store.documents.sweep()
    assert documents_in(url) == [{"version": SCHEMA_VERSION}]


async def test_a_first_append_that_a_delete_overtakes_is_undone(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that is deleted while its first thread begins takes the thread with it: nothing is appended or left."""
    async with opened(url) as store, opened(url) as other:
        register = Commits.register

        async def register_late(commits: Commits, *arguments: Any) -> bool:
            registered = await register(commits, *arguments)
            await other.documents.delete(SCOPE, Session, "session-1")
            return registered

        monkeypatch.setattr(Commits, "register", register_late)
        with pytest.raises(SessionNotFound):
            await store.logs.append(SCOPE, THREAD, turn(1))
    assert documents_in(url) == [{"version": SCHEMA_VERSION}]


async def test_a_hung_or_refusing_server_is_reported_in_time_and_used_again(
    url: str, opensearch_server: OpenSearchServer
) -> None:
    """Each call fails within its timeout while the server hangs or refuses, and works as soon as it is back."""
    async with fault_proxy(opensearch_server.port) as proxy:
        behind = url.replace(f":{opensearch_server.port}", f":{proxy.port}").replace("timeout=20", "timeout=1")
        async with opened(behind) as store:
            for fault in ("refuse", "hang", "reset"):
                await proxy.break_with(fault)
                async with asyncio.timeout(2.5):
                    calls = (store.ping(), store.logs.append(SCOPE, THREAD, turn(0)), store.search.size(SCOPE, "c"))
                    failed = await asyncio.gather(*calls, return_exceptions=True)
                assert [type(each) for each in failed] == [StoreUnavailable] * 3, fault
                await proxy.heal()
                await until_stored(store, 0)
            assert len(await store.logs.read(SCOPE, THREAD)) == 2


async def test_older_indices_are_upgraded_and_newer_refused(url: str) -> None:
    """Indices of an older version get what they lack and keep their documents; those of a newer one are not opened."""
    async with opened(url) as store:
        await store.logs.append(SCOPE, THREAD, turn(1))
    raw(url, "/{}_search", method="DELETE")
    raw(url, "/{}_schema/_doc/version", {"version": SCHEMA_VERSION - 1}, "PUT")
    assert await schema_at(url) == Schema(SCHEMA_VERSION - 1, SCHEMA_VERSION)
    async with opened(url) as store:
        await store.search.index(SCOPE, "c", [SearchEntry(id="a", text="孝悌")])
        assert len(await store.logs.read(SCOPE, THREAD)) == 2
    assert await schema_at(url) == Schema(SCHEMA_VERSION, SCHEMA_VERSION)
    raw(url, "/{}_schema/_doc/version", {"version": SCHEMA_VERSION + 1}, "PUT")
    with pytest.raises(StoreTooNew, match=f"version {SCHEMA_VERSION + 1}"):
        async with opened(url):
            pass


async def test_people_find_texts_by_hand(url: str) -> None:
    """Messages and entries are found by words in the cjk analysis too, with the documented fields beside them."""
    async with opened(url) as store:
        said = NewMessage(role="user", content="怎么创建押品？")
        await store.logs.append(SCOPE, THREAD, [said])
        await store.search.index(SCOPE, "manuals", [SearchEntry(id="a", text="押品入库的步骤")])
    raw(url, "/{}_*/_refresh", method="POST")
    [hit] = raw(url, "/{}_l1_memory/_search", {"query": {"match": {"content": "创建押品"}}}, "POST")["hits"]["hits"]
    found = hit["_source"]
    assert (found["session_id"], found["turn_id"], found["role"], found["content"]) == (
        "session-1",
        1,
        "user",
        "怎么创建押品？",
    )
    assert found["timestamp"].startswith(CLOCK().isoformat(timespec="seconds")[:19])
    [entry] = raw(url, "/{}_search/_search", {"query": {"match": {"text": "入库"}}}, "POST")["hits"]["hits"]
    assert entry["_source"]["id"] == "a"


async def test_an_engine_runs_on_it_and_turns_do_without_its_search(
    url: str, opensearch_server: OpenSearchServer
) -> None:
    """A whole turn runs over the store; with evidence there and memory elsewhere, a frozen node only degrades turns."""
    question = TurnRequest(
        scope=Scope("default", "default", "user"), persona_id="ancestor_yan", query="严氏祠堂建于何时？"
    )
    impatient = url.replace("timeout=20", "timeout=1")
    for flags in (
        {"store": url},
        {"store": "memory://", "search": impatient},
        {"store": "memory://", "evidence": impatient},
    ):
        settings = load_engine_settings(flags=flags | {"embedder": "none"}, environment={}).values
        async with open_engine(settings) as engine:
            answer = await engine.chat.ask(question)
            assert (answer.degraded, "1523" in answer.answer_text) == ([], True)
            if flags["store"] != url:
                opensearch_server.process.send_signal(signal.SIGSTOP)
                try:
                    answer = await engine.chat.ask(question)
                finally:
                    opensearch_server.process.send_signal(signal.SIGCONT)
                assert answer.degraded == ["search"]


def test_a_head_knows_which_messages_are_whole_turns() -> None:
    """A turn with an open message is left out, however far back, and the limit counts the others."""
    head = Head(session="s", incarnation="i", persona_id="p", label="l")
    for seq in range(1, 9):
        head.add(Message(f"m{seq}", seq, (seq + 1) // 2, "p", "user", "", CLOCK(), completed=seq not in {4, 7}))
    assert head.visible(10, whole_turns=True) == [1, 2, 5, 6]
    assert head.visible(3, whole_turns=True) == [2, 5, 6]
    assert head.visible(2, before=8) == [6, 7]
    head.complete(Message("m4", 4, 2, "p", "user", "", CLOCK()))
    assert head.visible(10, whole_turns=True) == [1, 2, 3, 4, 5, 6]
    assert len({each.message.seq for each in head.pending}) == 8


async def test_words_are_ranked_by_the_scope_alone_in_a_crowd(url: str) -> None:
    """A limit far below the matches returns the best by the scope's own statistics, beside 3 000 entries of others."""
    async with opened(url) as store:
        crowd = [SearchEntry(id=f"{n}", text=f"灯笼 {'祠堂 ' * (n % 7)}") for n in range(3_000)]
        await store.search.index(Scope("other", "site", "user"), "c", crowd)
        mine = [
            SearchEntry(id=f"{n:03}", text=f"灯笼 {'族谱 ' * (n % 9)}{'祠堂' if n == 250 else ''}") for n in range(300)
        ]
        await store.search.index(SCOPE, "c", mine)
        asked = [SearchQuery(text="灯笼 祠堂", limit=limit) for limit in (5, 300)]
        few, many = await store.search.query(SCOPE, "c", asked)
    assert few[0].id == "250"
    assert few == many[:5]
