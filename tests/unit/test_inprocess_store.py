"""In-process backend: behaviour beyond the contracts; conformance is tested elsewhere."""

import asyncio
import threading
from datetime import timedelta
from math import isclose, log

import pytest
from msgspec.structs import replace

from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, UnsupportedUrl
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.bm25 import UNIT, coverage, idf, length_factor, term_score
from wenmai.stores.fusion import Candidates, best
from wenmai.stores.inprocess import InProcessStore
from wenmai.stores.inprocess.documents import InProcessDocuments
from wenmai.stores.inprocess.logs import InProcessLogs
from wenmai.stores.inprocess.partition import Partition
from wenmai.stores.inprocess.search import LARGE, InProcessSearch
from wenmai.stores.opening import open_store
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.structs import Hit, RankFusion, SearchEntry, SearchQuery, WeightedFusion

SCOPE = Scope()
THREAD = ThreadKey("s", "elder")


def session(clock: MovableClock) -> Session:
    """A session that lasts an hour."""
    return Session(session_id="s", expires_at=clock() + timedelta(hours=1), lifetime_seconds=3_600)


async def test_each_opened_store_is_separate() -> None:
    """Two open memory:// stores share nothing, and are not durable."""
    async with open_store("memory://") as one, open_store("MEMORY://") as other:
        await one.ping()
        assert isinstance(one, InProcessStore)
        assert one.durable is False
        assert one.documents is not None
        assert other.documents is not None
        await one.documents.put(SCOPE, session(MovableClock()))
        assert await other.documents.get(SCOPE, Session, THREAD.session_id) is None


async def test_a_name_after_the_scheme_is_refused() -> None:
    """memory://shared raises, so that it is not mistaken for a shared store."""
    with pytest.raises(UnsupportedUrl, match="shared"):
        async with open_store("memory://shared"):
            pass


@pytest.mark.parametrize("how", ["delete", "sweep"])
async def test_threads_are_deleted_with_their_session(how: str) -> None:
    """A session that is recreated after a delete or a sweep has no messages."""
    clock = MovableClock()
    documents = InProcessDocuments(clock)
    logs = InProcessLogs(documents, clock)
    await documents.put(SCOPE, session(clock), keep_until=clock() + timedelta(hours=2))
    await logs.append(SCOPE, THREAD, [NewMessage(role="user", content="孝")])
    if how == "delete":
        await documents.delete(SCOPE, Session, "s")
    else:
        clock.advance(timedelta(hours=2))
        await documents.sweep()
    await documents.put(SCOPE, session(clock), expected=0)
    assert await logs.threads(SCOPE, "s") == []


async def test_activity_moves_updated_at_and_not_the_version() -> None:
    """A slide does not conflict with a compare-and-set: the version does not change, updated_at does."""
    clock = MovableClock()
    documents = InProcessDocuments(clock)
    await documents.put(SCOPE, session(clock))
    clock.advance(timedelta(minutes=5))
    await InProcessLogs(documents, clock).append(SCOPE, THREAD, [NewMessage(role="user", content="孝")])
    stored = await documents.get(SCOPE, Session, "s")
    assert stored is not None
    assert (stored.version, stored.updated_at) == (1, clock())


async def test_naive_timestamps_are_refused() -> None:
    """A naive timestamp raises InvalidInput that names the message."""
    clock = MovableClock()
    documents = InProcessDocuments(clock)
    await documents.put(SCOPE, session(clock))
    naive = NewMessage(role="user", content="x", timestamp=clock().replace(tzinfo=None))
    with pytest.raises(InvalidInput, match=r"messages\[0\]\.timestamp"):
        await InProcessLogs(documents, clock).append(SCOPE, THREAD, [naive])


async def test_completing_without_metadata_keeps_it() -> None:
    """A message keeps the metadata it was appended with unless completing brings its own."""
    clock = MovableClock()
    documents = InProcessDocuments(clock)
    logs = InProcessLogs(documents, clock)
    await documents.put(SCOPE, session(clock))
    draft = NewMessage(role="assistant", content="", completed=False, metadata={"model": "x"})
    [answer] = (await logs.append(SCOPE, THREAD, [draft])).messages
    completed = await logs.complete(SCOPE, THREAD, answer, content="答")
    assert completed is not None
    assert completed.metadata == {"model": "x"}


async def test_scores_are_exactly_bm25() -> None:
    """A collection of two entries has the score computed by hand: idf ln 2, k1 0.9, b 0.4, lengths 1 and 3."""
    search = InProcessSearch()
    texts = {"a": "lantern", "b": "buffalo seed water"}
    await search.index(SCOPE, "c", [SearchEntry(id=id_, text=text) for id_, text in texts.items()])
    [[hit]] = await search.query(SCOPE, "c", [SearchQuery(text="lantern")])
    by_hand = log(2) * 1.9 / (1 + 0.9 * (1 - 0.4 + 0.4 * 1 / 2))
    assert isclose(hit.lexical, by_hand)


def test_ranking_functions_match_their_definitions() -> None:
    """idf, term score and coverage have the values of their definitions."""
    assert isclose(UNIT * idf(10, 2), log(1 + 8.5 / 2.5), rel_tol=1e-9)
    assert idf(10, 10) > 0
    assert isclose(UNIT * term_score(round(2 / UNIT), 3, 4, length_factor(1, 4)), 2.0 * 3 * 1.9 / 3.9, rel_tol=1e-9)
    assert isclose(coverage({"a": 3, "b": 1}, ["a"]), 0.75)
    assert coverage({}, []) == 0.0


def test_candidates_are_fused_as_the_query_asks() -> None:
    """Both fusions order the same candidates differently, by figures computed by hand; the limit only cuts."""
    candidates = Candidates("abcd", [3.0, 2.0, 0.0, 1.0], [0.1, 0.9, 0.8, None])

    def ordered(query: SearchQuery) -> list[str]:
        return [candidates.ids[place] for place in best(query, candidates)]

    by_rank = SearchQuery(text="x", vector=[1.0], fusion=RankFusion(constant=1))
    # a 1/2 + 1/4, b 1/3 + 1/2, c 1/3, d 1/4
    assert ordered(by_rank) == ["b", "a", "c", "d"]
    by_weight = SearchQuery(text="x", vector=[1.0], fusion=WeightedFusion(words=0.5, vector=0.5))
    # z: words 1.342, 0.447, -1.342, -0.447; similarity -1.405, 0.843, 0.562, 0
    assert ordered(by_weight) == ["b", "a", "d", "c"]
    assert ordered(replace(by_weight, limit=2)) == ["b", "a"]
    assert ordered(SearchQuery(text="x")) == ["a", "b", "d", "c"]
    assert ordered(SearchQuery(vector=[1.0])) == ["b", "c", "a", "d"]


def test_equal_scores_fuse_to_the_order_of_ids() -> None:
    """Scores that differ by rounding alone have no weight."""
    candidates = Candidates("cba", [0.1 + 1e-12 * number for number in range(3)], [0.7] * 3)
    query = SearchQuery(text="x", vector=[1.0], fusion=WeightedFusion())
    assert best(query, candidates) == [2, 1, 0]


async def test_a_large_search_leaves_the_event_loop_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs in a thread; changes of the partition wait for it, even if the search is cancelled."""
    search, finish = InProcessSearch(), threading.Event()
    entries = [SearchEntry(id=f"{number}", text="孝") for number in range(LARGE + 1)]
    await search.index(SCOPE, "c", entries)
    found: list[Hit] = []

    def slow_hits(partition: Partition, query: SearchQuery) -> list[Hit]:
        assert finish.wait(10)
        assert len(partition.entries) == LARGE + 1
        found.extend(hits(partition, query))
        return found

    hits = Partition.hits
    monkeypatch.setattr(Partition, "hits", slow_hits)
    asked = asyncio.create_task(search.query(SCOPE, "c", [SearchQuery(text="孝")]))
    await asyncio.sleep(0.01)
    asked.cancel()
    removal = asyncio.create_task(search.remove(SCOPE, "c", ["0"]))
    await search.index(SCOPE, "other", entries[:1])
    assert not removal.done()
    finish.set()
    assert await removal == 1
    assert len(found) == 10
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_first_search_by_vector_runs_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """It loads numpy and builds the matrix; later ones of few entries stay on the event loop."""
    search = InProcessSearch()
    threads: list[bool] = []

    def noted_hits(partition: Partition, query: SearchQuery) -> list[Hit]:
        threads.append(threading.current_thread() is threading.main_thread())
        return hits(partition, query)

    hits = Partition.hits
    monkeypatch.setattr(Partition, "hits", noted_hits)
    await search.index(SCOPE, "c", [SearchEntry(id="a", text="孝", vector=[1.0])])
    for query in (SearchQuery(text="孝"), SearchQuery(vector=[1.0]), SearchQuery(vector=[1.0])):
        await search.query(SCOPE, "c", [query])
    assert threads == [True, False, True]
