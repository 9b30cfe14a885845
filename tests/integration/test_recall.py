"""Recall over real stores: what was said is found, what was deleted is not, and a crash loses nothing."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cli_process import SECONDS, environment
from http_service import open_service
from program import Program

from support import URLS
from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, ModelError, SessionNotFound
from wenmai.memory import derived
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.library import Memory, open_memory, required
from wenmai.memory.session_memory import SessionMemory
from wenmai.resilience.degradation import collected_degradation
from wenmai.retrieval.query_embedding import QueryEmbedding
from wenmai.scope import Scope
from wenmai.stores.contracts import Search, Store
from wenmai.stores.opening import open_store
from wenmai.stores.structs import CollectionSize, SearchQuery

pytestmark = pytest.mark.xdist_group("postgresql")

ANN, BEN = Scope(user_id="ann"), Scope(user_id="ben")
MUSEUM = "The museum had a room full of dinosaurs"
CAT = "My cat is called Momo"


class WordVectors:
    """An embedder whose vectors count a few words; it records the texts, and can fail or wait."""

    name = "test:words"
    words = ("museum", "cat", "river", "dinosaurs")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.problem: ModelError | None = None
        self.ready = asyncio.Event()
        self.ready.set()

    async def embed_query(self, text: str) -> list[float]:
        """A museum is where exhibits are."""
        return self._vector(text.replace("exhibits", "museum dinosaurs"))

    async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
        """One vector for each text."""
        await self.ready.wait()
        if self.problem is not None:
            raise self.problem
        self.texts += texts
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        return [0.1 + text.lower().count(word) for word in self.words]


class World:
    """A store, and memories over it as of several processes."""

    def __init__(self, store: Store, clock: MovableClock) -> None:
        self.clock = clock
        self.store = store
        self._started: list[Memory] = []

    @property
    def search(self) -> Search:
        """The index itself."""
        assert self.store.search is not None
        return self.store.search

    def process(self, embedder: WordVectors | None = None) -> Memory:
        """The memory of another process."""
        documents, logs = required(self.store, "")
        memory = Memory(documents, logs, clock=self.clock, search=self.store.search, embedder=embedder)
        memory.derived.start()
        self._started.append(memory)
        return memory

    async def entries(self, scope: Scope, collection: str = "episodes:2.1") -> int:
        """How many entries the user has in the store."""
        return (await self.search.size(scope, collection)).entries

    async def close(self) -> None:
        """Stop all processes."""
        for memory in self._started:
            await memory.derived.stop(1)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
async def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """An empty store with search; no sweep begins by itself."""
    monkeypatch.setattr(derived, "FIRST_SWEEP_SECONDS", 3600.0)
    clock = MovableClock(datetime(2026, 3, 10, 9, 0, tzinfo=UTC))
    async with open_store(URLS[request.param](request), clock=clock) as store:
        world = World(store, clock)
        yield world
        await world.close()


async def say(session: SessionMemory, *contents: str, **fields: Any) -> None:
    """Append messages of user and assistant in turn, with ids ``<session>-0``, ``-1`` …."""
    start = len(await session.messages(1000))
    await session.append(
        [
            {"role": ("user", "assistant")[n % 2], "content": text, "id": f"{session.session_id}-{start + n}", **fields}
            for n, text in enumerate(contents)
        ]
    )


async def ids_of(memory: Memory, query: str, **limits: Any) -> list[str]:
    """The ids of the recalled messages, item by item."""
    return [id_ for item in await memory.recall(query, scope=ANN, **limits) for id_ in item.message_ids]


async def test_what_was_said_is_recalled_from_all_sessions_of_the_user(world: World) -> None:
    """By words, over sessions and personas; within one session or thread if asked; never another user's."""
    memory = world.process()
    first, second = [await memory.session(name, scope=ANN) for name in ("one", "two")]
    await say(first, MUSEUM, "How lovely")
    await say(second, CAT, "A fine name")
    await say(second.with_persona("elder"), "The museum is closed on Mondays", "I see")
    await say(await memory.session("three", scope=BEN), "Ben was in the museum too", "Fine")
    await memory.derived.catch_up(10)
    found = await memory.recall("Were there dinosaurs in the museum?", scope=ANN)
    assert {item.session_id for item in found} == {"one", "two"}
    assert found[0].text == MUSEUM
    assert (found[0].message_ids, found[0].turn_id, found[0].persona_id) == (["one-0"], 1, "assistant")
    assert found[0].score == pytest.approx(sum(getattr(found[0].why, part) for part in found[0].why.__struct_fields__))
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert {item.session_id for item in await first.recall("museum")} == {"one"}
    assert await ids_of(memory, "museum", persona_id="elder") == ["two-0", "two-1"]
    [turn] = await memory.recall("dinosaurs", scope=ANN, unit="turn")
    assert (turn.text, turn.message_ids) == (f"{MUSEUM}\nHow lovely", ["one-0", "one-1"])
    with pytest.raises(SessionNotFound):
        await memory.recall("museum", scope=BEN, session_id="one")


@pytest.mark.parametrize("embedder", [None, WordVectors()], ids=["words alone", "with vectors"])
async def test_what_was_said_last_is_before_the_answer_to_it(world: World, embedder: WordVectors | None) -> None:
    """The words of a message are also in the entry of its answer, and no message follows that is without them."""
    memory = world.process(embedder)
    session = await memory.session("one", scope=ANN)
    await say(session, MUSEUM, "How lovely", CAT, "Fine")
    await memory.derived.catch_up(10)
    assert (await ids_of(memory, "What is my cat called?"))[:2] == ["one-2", "one-3"]


OTHER_TALK = (
    ("周末想去爬山 I want to climb a hill", "好主意 good idea"),
    ("家里的猫生病了 our cat is ill", "希望它好起来 poor thing"),
    ("公司换了办公室 we have a new office", "在哪里呢 where is it"),
    ("孩子开学了 school has begun", "真快 so soon"),
)


@pytest.mark.parametrize(
    ("visits", "first", "last"),
    [
        (
            ["我去看牙医，补了牙", "又去看牙医，洗了牙", "看牙医，说不用再去了"],
            "我第一次看牙医是什么时候？",
            "最近一次看牙医是什么时候？",
        ),
        (
            ["I went to the dentist for a filling", "The dentist cleaned my teeth", "The dentist saw nothing wrong"],
            "When was the first time I went to the dentist?",
            "What did the dentist do the last time?",
        ),
    ],
    ids=["Chinese", "English"],
)
async def test_the_first_and_the_last_time_are_the_earliest_and_the_latest(
    world: World, visits: Sequence[str], first: str, last: str
) -> None:
    """Of the messages that answer the question; what was said before or after of something else is not."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    visited = [(text, "原来如此 I see") for text in visits]
    talk = [each for pair in zip(OTHER_TALK, visited, strict=False) for each in pair] + [OTHER_TALK[-1]]
    for number, (question, answer) in enumerate(talk):
        await say(session, question, answer, timestamp=world.clock() + timedelta(days=number))
    await memory.derived.catch_up(10)
    assert [(await memory.recall(query, scope=ANN))[0].text for query in (first, last)] == [visits[0], visits[-1]]


async def test_limits_select_messages(world: World) -> None:
    """By number, time and id: what the window has already is left out, by its id."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    days = [world.clock() - timedelta(days=ago) for ago in (3, 2, 1)]
    for number, day in enumerate(days):
        await say(session, f"museum visit number {number}", "ok", timestamp=day)
    await memory.derived.catch_up(10)
    everything = await ids_of(memory, "museum visit", top_k=50)
    assert set(everything) == {f"s-{n}" for n in range(6)}
    assert await ids_of(memory, "museum visit", top_k=3) == everything[:3]
    assert set(await ids_of(memory, "museum visit", after=days[1])) == {"s-2", "s-3", "s-4", "s-5"}
    assert set(await ids_of(memory, "museum visit", before=days[1])) == {"s-0", "s-1"}
    assert set(await ids_of(memory, "museum visit", exclude=["s-4", "s-5", "s-0"])) == {"s-1", "s-2", "s-3"}
    assert set(await ids_of(memory, "museum visit", unit="turn", exclude=["s-5"])) == {"s-0", "s-1", "s-2", "s-3"}
    assert (await ids_of(memory, "What about the museum two days ago?"))[0] == "s-2"
    with pytest.raises(InvalidInput):
        await memory.recall("museum", scope=ANN, top_k=0)


async def test_times_that_no_index_holds_hide_nothing(world: World) -> None:
    """Neither the message of a wrong clock nor those beside it, and a bound may be any time."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    times = [datetime(2, 1, 1, tzinfo=UTC), world.clock(), datetime(9998, 12, 31, tzinfo=UTC)]
    for time in times:
        await say(session, "yesterday, tomorrow, 2000 years ago and next year we saw the museum", timestamp=time)
    await memory.derived.catch_up(10)
    assert memory.derived.lag.threads == 0
    everything = {"s-0", "s-1", "s-2"}
    assert set(await ids_of(memory, "museum")) == everything
    least, most = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert set(await ids_of(memory, "museum", after=least, before=most)) == everything
    assert await ids_of(memory, "museum", before=least) == await ids_of(memory, "museum", after=most) == []
    assert set(await ids_of(memory, "museum", after=times[1])) == {"s-1", "s-2"}
    assert await ids_of(memory, "museum", before=times[1]) == ["s-0"]
    assert await ids_of(memory, "museum", before=times[0], after=times[2]) == []


@pytest.mark.parametrize(
    ("field", "limits"),
    [
        ("before", {"before": datetime(2026, 3, 1)}),  # noqa: DTZ001 — such a time is refused
        ("after", {"after": datetime(2026, 3, 1)}),  # noqa: DTZ001
        ("query", {"query": "museum \ud800"}),
        ("unit", {"unit": "sentence"}),
    ],
)
async def test_a_query_that_cannot_be_asked_is_named(world: World, field: str, limits: dict[str, Any]) -> None:
    """Not a field of the search below it."""
    with pytest.raises(InvalidInput) as refused:
        await world.process().recall(**{"query": "museum", "scope": ANN, **limits})
    assert refused.value.field == field


async def test_a_query_that_only_points_back_recalls_what_was_said_last(world: World) -> None:
    """Of the session asked about, else the latest; newest first, indexed or not, and never of an incognito turn."""
    memory = world.process()
    first, second = [await memory.session(name, scope=ANN) for name in ("one", "two")]
    await say(first, MUSEUM, "How lovely")
    await memory.derived.catch_up(10)
    world.clock.advance(timedelta(minutes=1))
    await say(second, CAT, "A fine name")
    assert (await ids_of(memory, "What did I just say?"))[:2] == ["two-1", "two-0"]
    assert (await ids_of(memory, "刚才说的那个", session_id="one"))[:2] == ["one-1", "one-0"]
    assert await ids_of(memory, "刚才说的那个", unit="turn", top_k=1) == ["two-0", "two-1"]
    found = await memory.recall("What did I just say?", scope=ANN)
    assert [item.score for item in found] == sorted((item.score for item in found), reverse=True)
    assert len({id_ for item in found for id_ in item.message_ids}) == len(found)
    world.clock.advance(timedelta(minutes=1))
    await say(second, "A secret", "Quiet", metadata={"incognito": True})
    assert (await ids_of(memory, "What did I just say?"))[:2] == ["two-1", "two-0"]
    assert await ids_of(memory, "What did I just say?", after=world.clock() + timedelta(days=1)) == []


async def test_a_failing_embedder_opens_the_breaker_that_is_shared(world: World) -> None:
    """Recall goes on by words, and the breaker that evidence uses too counts the failure."""

    class Failing(WordVectors):
        async def embed_query(self, text: str) -> list[float]:
            raise ModelError(self.name, f"no vector for {len(text)} characters", retryable=True)

    queries = QueryEmbedding(Failing())
    memory = Memory(*required(world.store, ""), clock=world.clock, search=world.search, queries=queries)
    memory.derived.start()
    await say(await memory.session("s", scope=ANN), MUSEUM, "ok")
    await memory.derived.catch_up(10)
    assert (await ids_of(memory, "museum"))[0] == "s-0"
    assert queries.breaker.status.failures == 1
    await memory.derived.stop(1)


@pytest.mark.parametrize("vector", [[], [float("nan"), 1.0], [float("inf"), 1.0], [1.0], [1.0] * 5])
async def test_a_vector_that_is_none_leaves_recall_by_words(world: World, vector: list[float]) -> None:
    """Not finite, empty, or of another length than those that are stored: degraded, and no error of the caller."""

    class Broken(WordVectors):
        async def embed_query(self, text: str) -> list[float]:  # noqa: ARG002 — of the protocol
            return vector

    memory = world.process(Broken())
    await say(await memory.session("s", scope=ANN), MUSEUM, "ok")
    await memory.derived.catch_up(10)
    with collected_degradation() as degraded:
        assert (await ids_of(memory, "museum"))[0] == "s-0"
    assert list(degraded) == ["embedder"]


async def test_a_text_without_a_vector_holds_up_no_other(world: World) -> None:
    """A model of half precision overflows for some texts; those are found by words alone."""

    class Overflowing(WordVectors):
        async def embed_passages(self, texts: Sequence[str]) -> list[list[float]]:
            vectors = await super().embed_passages(texts)
            return [
                [float("nan")] * 4 if "river" in text else vector for text, vector in zip(texts, vectors, strict=True)
            ]

    memory = world.process(Overflowing())
    await say(await memory.session("s", scope=ANN), "the river rose", MUSEUM, CAT)
    await memory.derived.catch_up(10)
    assert memory.episodes is not None
    assert await memory.episodes.size(ANN) == CollectionSize(3, 2)
    assert "s-0" in await ids_of(memory, "river")


async def test_marginal_relevance_is_the_order_of_the_answer(world: World) -> None:
    """Near duplicates give way to what is different, and are not sorted back by their scores."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    for day in range(3):
        await say(session, f"We went to the museum with the dinosaurs, trip {day}", "ok")
    await say(session, "The museum was closed when my sister came", "pity")
    await memory.derived.catch_up(10)
    plain = await ids_of(memory, "museum dinosaurs", top_k=2)
    assert not {"s-6"} & set(plain)
    diverse = await memory.recall("museum dinosaurs", scope=ANN, top_k=2, mmr_lambda=0.3)
    assert diverse[0].message_ids == plain[:1]
    assert "closed" in diverse[1].text or diverse[1].text in {"ok", "pity"}
    everything = await memory.recall("museum dinosaurs", scope=ANN, top_k=8, mmr_lambda=0.3)
    assert len(everything) == 8
    assert [item.score for item in everything] != sorted((item.score for item in everything), reverse=True)
    assert await ids_of(memory, "museum dinosaurs", top_k=2, mmr_lambda=1.0) == plain
    with pytest.raises(InvalidInput):
        await memory.recall("museum", scope=ANN, mmr_lambda=1.5)


async def test_a_long_message_is_shortened_not_dropped(world: World) -> None:
    """It neither empties a budget nor exceeds it."""
    memory = world.process()
    await say(await memory.session("s", scope=ANN), f"{MUSEUM}. " + "And so on. " * 20_000, "museum, I see")
    await memory.derived.catch_up(10)
    for budget in (30, 200):
        items = await memory.recall("museum dinosaurs", scope=ANN, budget_tokens=budget)
        assert items
        assert sum(item.tokens for item in items) <= budget
    [turn] = await memory.recall("museum dinosaurs", scope=ANN, unit="turn")
    assert turn.text.startswith(MUSEUM)
    assert len(turn.text) < 10_000


async def test_the_answer_of_a_turn_of_many_tool_calls_is_recalled_with_its_turn(world: World) -> None:
    """Whichever message of the turn is found; not more of it than is read at once."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    call = {"type": "function", "function": {"name": "look", "arguments": "{}"}}
    steps = [
        message
        for number in range(40)
        for message in (
            {"role": "assistant", "content": f"step {number}", "tool_calls": [{"id": f"c{number}", **call}]},
            {"role": "tool", "content": "nothing", "tool_call_id": f"c{number}"},
        )
    ]
    answer = {"role": "assistant", "content": "The cat sleeps in the boathouse", "id": "answer"}
    await session.append([{"role": "user", "content": "Find Momo", "id": "question"}, *steps, answer])
    await memory.derived.catch_up(10)
    [turn] = await memory.recall("boathouse", scope=ANN, unit="turn", top_k=1)
    assert turn.message_ids[-1] == "answer"
    assert len(turn.message_ids) <= 50
    [turn] = await memory.recall("Momo", scope=ANN, unit="turn", top_k=1)
    assert turn.message_ids[0] == "question"


async def test_a_turn_is_recalled_up_to_its_first_incognito_message(world: World) -> None:
    """A caller may mark an answer alone; the turn of its question does not show it, nor what follows it."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    secret = {"role": "assistant", "content": "Under the oak", "id": "secret", "metadata": {"incognito": True}}
    after = {"role": "assistant", "content": "The oak by the river", "id": "after"}
    await session.append([{"role": "user", "content": "Where is the treasure?", "id": "question"}, secret, after])
    await memory.derived.catch_up(10)
    [turn] = await memory.recall("treasure", scope=ANN, unit="turn")
    assert (turn.message_ids, turn.text) == (["question"], "Where is the treasure?")
    assert await ids_of(memory, "oak river") == []


async def test_a_turn_holds_messages_within_the_times_alone(world: World) -> None:
    """The answer that came after ``before`` is not recalled with its question, nor a question before ``after``."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    await say(session, MUSEUM)
    world.clock.advance(timedelta(minutes=1))
    answered = world.clock()
    await say(session, "How lovely, a museum with dinosaurs", role="assistant")
    await memory.derived.catch_up(10)
    assert await ids_of(memory, "museum", unit="turn", before=answered) == ["s-0"]
    assert await ids_of(memory, "museum", unit="turn", after=answered) == ["s-1"]
    assert await ids_of(memory, "museum", unit="turn") == ["s-0", "s-1"]


async def test_meaning_arrives_after_the_words(world: World) -> None:
    """A message is found by its words while its vector is on the way; no text is embedded twice."""
    embedder = WordVectors()
    embedder.ready.clear()
    memory = world.process(embedder)
    session = await memory.session("s", scope=ANN)
    await say(session, MUSEUM, "ok", CAT, "ok")
    for _ in range(200):
        if await world.entries(ANN, "episodes:2.1:test:words") == 4:
            break
        memory.derived.schedule_soon(ANN, session._thread)
        await asyncio.sleep(0.02)
    assert (await ids_of(memory, "dinosaurs"))[0] == "s-0"
    assert await ids_of(memory, "exhibits?") == []
    embedder.ready.set()
    await memory.derived.catch_up(10)
    assert (await ids_of(memory, "exhibits?"))[0] == "s-0"
    await memory.derived.rebuild(f"episode_vectors:2.1:{embedder.name}", ANN, session._thread)
    await say(session, "The river", "ok")
    await memory.derived.catch_up(10)
    assert sorted(embedder.texts) == sorted({MUSEUM, "ok", CAT, "The river"})


async def test_a_failing_embedder_leaves_recall_by_words(world: World) -> None:
    """Also for single texts that it refuses for good: the others get their vectors."""
    embedder = WordVectors()
    embedder.problem = ModelError("words", "refused")
    memory = world.process(embedder)
    session = await memory.session("s", scope=ANN)
    await say(session, MUSEUM, "ok")
    await memory.derived.catch_up(10)
    assert (await ids_of(memory, "dinosaurs"))[0] == "s-0"
    embedder.problem = None
    await say(session, CAT, "ok")
    await memory.derived.catch_up(10)
    assert embedder.texts == [CAT, "ok"]


@pytest.mark.parametrize("way", ["session", "thread", "cut", "cut to nothing"])
async def test_what_is_deleted_leaves_the_index(world: World, way: str) -> None:
    """Its words, also those in the entry of the message after it, in the collections of all embedders."""
    first, second = world.process(), world.process(WordVectors())
    await say(await first.session("s", scope=ANN), "kept", "kept too", MUSEUM, "ok")
    await say(await first.session("other", scope=ANN), CAT, "ok")
    for memory in (first, second):
        await memory.derived.sweep()
        await memory.derived.catch_up(10)
    memory = world.process()
    found = await memory.find("s", scope=ANN)
    assert found is not None
    left = 4 if way == "cut" else 2
    match way:
        case "session":
            await found.delete()
        case "thread":
            await found.clear()
        case _:
            await found.truncate(2 if way == "cut" else 0)
    assert await ids_of(memory, "dinosaurs") == []
    for collection in ("episodes:2.1", "episodes:2.1:test:words"):
        [hits] = await world.search.query(ANN, collection, [SearchQuery(text="museum dinosaurs", limit=10)])
        assert [hit.id for hit in hits if hit.lexical] == []
    assert await world.entries(ANN) == await world.entries(ANN, "episodes:2.1:test:words") == left


async def test_an_id_that_is_taken_again_has_nothing_of_the_former_session(world: World) -> None:
    """Neither within the session nor over all."""
    memory = world.process()
    await say(await memory.session("s", scope=ANN), MUSEUM, "ok")
    await memory.derived.catch_up(10)
    await memory.sessions.delete(ANN, "s")
    await say(await memory.session("s", scope=ANN), CAT, "ok")
    await memory.derived.catch_up(10)
    assert await ids_of(memory, "dinosaurs", session_id="s") == []
    assert await ids_of(memory, "dinosaurs") == []
    assert (await ids_of(memory, "cat"))[0] == "s-0"


async def test_messages_that_replace_others_replace_their_entries(world: World) -> None:
    """After a cut, a message with the number of a removed one is another message, with its own entry."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    await session.append([{"role": "user", "content": MUSEUM}, {"role": "assistant", "content": "ok"}])
    await memory.derived.catch_up(10)
    await session.truncate(0)
    await session.append([{"role": "user", "content": CAT}, {"role": "assistant", "content": "ok"}])
    assert await ids_of(memory, "dinosaurs") == []
    await memory.derived.catch_up(10)
    assert await ids_of(memory, "dinosaurs") == []
    assert len(await ids_of(memory, "cat")) == 2


async def test_an_index_that_is_late_shows_nothing_wrong(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries of removed messages, whose numbers others have now, give neither the old texts nor the new ones."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    await session.append([{"role": "user", "content": MUSEUM}, {"role": "assistant", "content": "dinosaurs"}])
    await memory.derived.catch_up(10)

    async def fail_to_remove(*_: Any) -> None:
        pass

    monkeypatch.setattr(EpisodeIndex, "remove", fail_to_remove)
    await session.truncate(0)
    await session.append([{"role": "user", "content": CAT}])
    assert await world.entries(ANN) == 2
    assert await ids_of(memory, "dinosaurs") == []


async def test_late_background_work_resurrects_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that has read the messages when the session is deleted writes its entries, and removes them itself."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    await say(session, MUSEUM, "ok")
    reading, go = asyncio.Event(), asyncio.Event()
    add = EpisodeIndex.add

    async def late(index: EpisodeIndex, *arguments: Any) -> None:
        reading.set()
        await go.wait()
        await add(index, *arguments)

    monkeypatch.setattr(EpisodeIndex, "add", late)
    memory.derived.schedule_soon(ANN, session._thread)
    await asyncio.wait_for(reading.wait(), 10)
    await session.delete()
    go.set()
    await memory.derived.catch_up(10)
    assert await world.entries(ANN) == 0


@pytest.mark.parametrize("cut", ["not yet", "done"])
async def test_messages_derived_during_a_cut_that_dies_are_found(
    world: World, monkeypatch: pytest.MonkeyPatch, cut: str
) -> None:
    """Another process derives the thread between two steps of a cut, or appends to it; then the cutting one dies."""
    memory, other = world.process(), world.process()
    session = await memory.session("s", scope=ANN)
    await say(session, CAT, "ok")
    await memory.derived.catch_up(10)
    remove, logs = EpisodeIndex.remove, memory.transcript._logs
    truncate = logs.truncate

    async def derive_elsewhere() -> None:
        other.derived.schedule_soon(ANN, session._thread)
        await other.derived.catch_up(10)

    async def derived_then_removed(index: EpisodeIndex, *arguments: Any) -> None:
        await derive_elsewhere()
        await remove(index, *arguments)

    async def cut_then_appended(*arguments: Any) -> int:
        removed = await truncate(*arguments)
        await say(session, MUSEUM, "ok")
        await derive_elsewhere()
        return removed

    async def die(*_: Any) -> int:
        raise OSError

    with monkeypatch.context() as broken:
        if cut == "not yet":
            broken.setattr(EpisodeIndex, "remove", derived_then_removed)
        broken.setattr(logs, "truncate", die if cut == "not yet" else cut_then_appended)
        broken.setattr(memory.transcript, "_on_cut", die)
        with pytest.raises(OSError):  # noqa: PT011 — the one above
            await memory.transcript.truncate(ANN, session._thread, 0)
    await other.derived.stop(1)
    restarted = world.process()
    await restarted.derived.sweep()
    await restarted.derived.catch_up(10)
    assert await world.entries(ANN) == len(await session.messages()) == 2


async def test_a_deletion_that_fails_keeps_recall(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entries are removed first; if the process dies then, they are derived again."""
    memory = world.process()
    session = await memory.session("s", scope=ANN)
    await say(session, MUSEUM, "ok")
    await memory.derived.catch_up(10)
    documents, _ = required(world.store, "")

    async def fail(*_: Any, **__: Any) -> bool:
        raise OSError

    with monkeypatch.context() as broken:
        broken.setattr(type(documents), "delete", fail)
        with pytest.raises(OSError):  # noqa: PT011 — the one above
            await session.delete()
    assert await world.entries(ANN) == 0
    restarted = world.process()
    await restarted.derived.sweep()
    await restarted.derived.catch_up(10)
    assert (await ids_of(restarted, "dinosaurs"))[0] == "s-0"


WRITE_AND_DIE = """
import asyncio, os, signal, sys
from wenmai.memory.episodes import EpisodeIndex
from wenmai.memory.library import open_memory

async def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with open_memory(sys.argv[1]) as memory:
        session = await memory.session("s")
        await session.append([{"role": "user", "content": "%s"}, {"role": "assistant", "content": "ok"}])
        EpisodeIndex.trim = die
        await memory.derived.catch_up()

asyncio.run(main())
"""


async def test_recall_converges_after_a_kill(tmp_path: Path) -> None:
    """Of a process that has indexed messages, but not noted it: a later one does it again, with the same entries."""
    program = tmp_path / "write_and_die.py"
    program.write_text(WRITE_AND_DIE % MUSEUM, encoding="utf-8")
    url = f"sqlite:///{tmp_path}/wenmai.db"
    assert await asyncio.to_thread(Program([str(program), url], env=environment()).wait, SECONDS) == -9
    async with open_memory(url) as memory:
        assert await memory.derived.sweep() == 1
        await memory.derived.catch_up(10)
        assert (await memory.recall("dinosaurs"))[0].text == MUSEUM
        assert (await memory.recalls.size(Scope())).entries == 2


async def test_recall_over_http(tmp_path: Path) -> None:
    """The items in rank order; what is not allowed is 422, a foreign session 404."""
    async with open_service(tmp_path) as service:
        session_id = await service.create_session()
        lines = [{"role": "user", "content": MUSEUM, "id": "mine"}, {"role": "assistant", "content": "ok"}]
        await service.client.post(f"/v1/sessions/{session_id}/messages", json={"messages": lines})
        await service.engine.memory.derived.catch_up(10)
        answer = await service.client.post("/v1/recall", json={"query": "dinosaurs?", "top_k": 1, "unit": "message"})
        assert answer.status_code == 200, answer.text
        [item] = answer.json()["items"]
        assert (item["session_id"], item["npc_id"], item["turn_id"]) == (session_id, "assistant", 1)
        assert (item["message_ids"], item["text"]) == (["mine"], MUSEUM)
        assert item["timestamp"] == item["timestamps"][0]
        assert set(item["why"]) == {"words", "meaning", "time", "speaker", "neighbours", "form", "session"}
        for wrong in (
            {},
            {"query": " "},
            {"query": "a", "top_k": 0},
            {"query": "a", "unit": "day"},
            {"query": "a", "mmr_lambda": "0.5"},
            {"query": "a", "mmr_lambda": True},
            {"query": "a", "x": 1},
        ):
            assert (await service.client.post("/v1/recall", json=wrong)).status_code == 422, wrong
        foreign = service.client_of(X_User_ID="stranger")
        asked = {"query": "dinosaurs", "session_id": session_id}
        assert (await foreign.post("/v1/recall", json=asked)).status_code == 404
        assert (await foreign.post("/v1/recall", json={"query": "dinosaurs"})).json() == {"items": [], "degraded": []}


async def test_a_store_without_search_says_so() -> None:
    """Instead of finding nothing."""
    async with open_store("memory://") as store:
        memory = Memory(*required(store, ""))
        with pytest.raises(InvalidInput, match="search"):
            await memory.recall("anything")
