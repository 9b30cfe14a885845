"""The in-process backend, where the contracts leave the choice to it; conformance is tested elsewhere."""

from datetime import timedelta
from math import isclose, log

import pytest

from wenmai.clock import MovableClock
from wenmai.errors import InvalidInput, UnsupportedUrl
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.base import SearchEntry
from wenmai.stores.bm25 import coverage, fuse, idf, term_score
from wenmai.stores.memory import MemoryStore
from wenmai.stores.memory.documents import MemoryDocuments
from wenmai.stores.memory.logs import MemoryLogs
from wenmai.stores.memory.search import MemorySearch
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.registry import open_store

SCOPE = Scope()
THREAD = ThreadKey("s", "elder")


def session(clock: MovableClock) -> Session:
    """A session that lasts an hour."""
    return Session(session_id="s", expires_at=clock() + timedelta(hours=1), lifetime_seconds=3_600)


async def test_each_opening_is_a_store_of_its_own() -> None:
    """Two openings of memory:// share nothing, and say so."""
    async with open_store("memory://") as one, open_store("MEMORY://") as other:
        await one.ping()
        assert isinstance(one, MemoryStore)
        assert one.durable is False
        assert one.documents is not None
        assert other.documents is not None
        await one.documents.put(SCOPE, session(MovableClock()))
        assert await other.documents.get(SCOPE, Session, THREAD.session_id) is None


async def test_a_name_after_the_scheme_is_refused() -> None:
    """memory://shared raises, so that nobody takes it for a store that is shared."""
    with pytest.raises(UnsupportedUrl, match="shared"):
        async with open_store("memory://shared"):
            pass


@pytest.mark.parametrize("how", ["delete", "sweep"])
async def test_threads_go_with_their_session(how: str) -> None:
    """A session whose record was deleted or swept begins without messages when its user makes it again."""
    clock = MovableClock()
    documents = MemoryDocuments(clock)
    logs = MemoryLogs(documents, clock)
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
    """A slide is no change that a compare-and-set must know of: the version stays, updated_at moves."""
    clock = MovableClock()
    documents = MemoryDocuments(clock)
    await documents.put(SCOPE, session(clock))
    clock.advance(timedelta(minutes=5))
    await MemoryLogs(documents, clock).append(SCOPE, THREAD, [NewMessage(role="user", content="孝")])
    stored = await documents.get(SCOPE, Session, "s")
    assert stored is not None
    assert (stored.version, stored.updated_at) == (1, clock())


async def test_moments_without_a_zone_are_refused() -> None:
    """A naive timestamp raises InvalidInput that names the message."""
    clock = MovableClock()
    documents = MemoryDocuments(clock)
    await documents.put(SCOPE, session(clock))
    naive = NewMessage(role="user", content="x", timestamp=clock().replace(tzinfo=None))
    with pytest.raises(InvalidInput, match=r"messages\[0\]\.timestamp"):
        await MemoryLogs(documents, clock).append(SCOPE, THREAD, [naive])


async def test_settling_without_metadata_keeps_it() -> None:
    """A message keeps the metadata it was appended with unless settling brings its own."""
    clock = MovableClock()
    documents = MemoryDocuments(clock)
    logs = MemoryLogs(documents, clock)
    await documents.put(SCOPE, session(clock))
    draft = NewMessage(role="assistant", content="", completed=False, metadata={"model": "x"})
    [answer] = (await logs.append(SCOPE, THREAD, [draft])).messages
    settled = await logs.settle(SCOPE, THREAD, answer, content="答")
    assert settled is not None
    assert settled.metadata == {"model": "x"}


async def test_scores_are_bm25_to_the_letter() -> None:
    """A two-entry collection scores as computed by hand: idf ln 2, k1 0.9, b 0.4, lengths 1 and 3."""
    search = MemorySearch()
    texts = {"a": "lantern", "b": "buffalo seed water"}
    await search.index(SCOPE, "c", [SearchEntry(id=id_, text=text) for id_, text in texts.items()])
    [hit] = await search.query(SCOPE, "c", text="lantern")
    by_hand = log(2) * 1.9 / (1 + 0.9 * (1 - 0.4 + 0.4 * 1 / 2))
    assert isclose(hit.lexical, by_hand)


def test_ranking_functions_by_hand() -> None:
    """idf, a term's score, coverage and fusion give the figures that their definitions give."""
    assert isclose(idf(10, 2), log(1 + 8.5 / 2.5))
    assert idf(10, 10) > 0
    assert isclose(term_score(2.0, 3, 4, 4.0), 2.0 * 3 * 1.9 / 3.9)
    assert isclose(coverage({"a": 3.0, "b": 1.0}, ["a"]), 0.75)
    assert coverage({}, []) == 0.0
    assert fuse([["x", "y"], ["y", "z"], ["w"]]) == ["y", "w", "x", "z"]
