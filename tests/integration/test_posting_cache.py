"""The postings that a process keeps are those of the database, whoever writes it, and few."""

from collections.abc import AsyncIterator
from pathlib import Path

import apsw
import asyncpg
import pytest

from postgres_server import PostgresServer
from wenmai.clock import system_clock
from wenmai.scope import Scope
from wenmai.stores import word_scores
from wenmai.stores.contracts import Search
from wenmai.stores.opening import open_store
from wenmai.stores.structs import SearchEntry, SearchQuery

pytestmark = pytest.mark.xdist_group("postgresql")

SCOPE = Scope()
QUERIES = [SearchQuery(text="孝 耕读"), SearchQuery(text="耕读 睦邻"), SearchQuery(text="睦邻 孝", limit=2)]
ENTRIES = [
    SearchEntry(id=f"{n}", text=f"孝 {'耕读 ' * (n % 3)}{'睦邻' * (n % 2)}", fields={"even": n % 2}) for n in range(300)
]
_LOSE_WORDS = ("DELETE FROM search_postings", "UPDATE search_partitions SET changes = changes + 1, entries = 7")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/wenmai.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.store()


async def opened(url: str) -> AsyncIterator[Search]:
    """The search of a store with nothing in memory."""
    async with open_store(url, clock=system_clock) as store:
        assert store.search is not None
        yield store.search


@pytest.fixture
async def search(url: str) -> AsyncIterator[Search]:
    """A search that has been asked, so that it keeps the postings."""
    async for own in opened(url):
        await own.index(SCOPE, "c", ENTRIES)
        await own.query(SCOPE, "c", QUERIES)
        yield own


@pytest.fixture
async def other(url: str, search: Search) -> AsyncIterator[Search]:
    """Another one in the same database, as another process has it."""
    async for own in opened(url):
        assert await own.query(SCOPE, "c", QUERIES) == await search.query(SCOPE, "c", QUERIES)
        yield own


async def is_current(search: Search, url: str) -> bool:
    """Whether the search finds, with the same scores, what one does that has nothing in memory.

    Also words asked together with those that it knows.
    """
    async for fresh in opened(url):
        for queries in (QUERIES, [SearchQuery(text="耕读 邻里 孝")]):
            if await search.query(SCOPE, "c", queries) != await fresh.query(SCOPE, "c", queries):
                return False
    return True


async def test_what_another_process_writes_is_found(search: Search, other: Search, url: str) -> None:
    """New, replaced, embedded and removed entries, by id and by filter: the next search has them in its scores."""
    await other.index(SCOPE, "c", [SearchEntry(id="new", text="孝 孝 邻里")])
    [found] = await search.query(SCOPE, "c", [SearchQuery(text="孝 邻里", limit=1)])
    assert [hit.id for hit in found] == ["new"]
    assert await is_current(search, url)
    await other.index(SCOPE, "c", [SearchEntry(id="7", text="耕读 邻里")])
    assert await is_current(search, url)
    await other.embed(SCOPE, "c", [SearchEntry(id="new", text="孝 孝 邻里", vector=[1.0])])
    assert await is_current(search, url)
    await other.remove(SCOPE, "c", ["new", "7"])
    [found] = await search.query(SCOPE, "c", [SearchQuery(text="邻里")])
    assert not found
    assert await is_current(search, url)
    await other.remove(SCOPE, "c", where={"even": 1})
    assert await is_current(search, url)


async def test_what_one_process_erases_is_found_by_none(search: Search, other: Search, url: str) -> None:
    """An emptied collection has no hit, and the words of another one's entry do not come back with the next."""
    await other.remove(SCOPE, "c", where={"even": [0, 1]})
    assert await search.query(SCOPE, "c", QUERIES) == [[], [], []]
    await search.index(SCOPE, "c", [SearchEntry(id="1", text="睦邻")])
    for each in (search, other):
        found = await each.query(SCOPE, "c", QUERIES)
        assert [[hit.id for hit in hits] for hits in found] == [[], ["1"], ["1"]]
        assert await is_current(each, url)


async def test_what_was_rolled_back_is_not_kept(search: Search, url: str) -> None:
    """A search beside an unfinished write, and after its rollback, is of the state before.

    The next write gives the partition the number of changes that the write had.
    """
    before = await search.query(SCOPE, "c", QUERIES)
    if url.startswith("sqlite"):
        raw = apsw.Connection(url.removeprefix("sqlite:///"))
        raw.execute("BEGIN IMMEDIATE")
        for statement in _LOSE_WORDS:
            raw.execute(statement)
        assert await search.query(SCOPE, "c", QUERIES) == before
        raw.execute("ROLLBACK")
        raw.close()
    else:
        connection = await asyncpg.connect(url)
        transaction = connection.transaction()
        await transaction.start()
        for statement in _LOSE_WORDS:
            await connection.execute(statement)
        assert await search.query(SCOPE, "c", QUERIES) == before
        await transaction.rollback()
        await connection.close()
    assert await search.query(SCOPE, "c", QUERIES) == before
    await search.index(SCOPE, "c", [SearchEntry(id="new", text="孝 耕读 睦邻")])
    assert await search.query(SCOPE, "c", QUERIES) != before
    assert await is_current(search, url)


async def test_scores_do_not_depend_on_what_fits_into_memory(
    search: Search, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A word whose postings are more than the memory for them is read each time."""
    monkeypatch.setattr(word_scores, "CACHED_POSTINGS", 250)
    for user in ("one", "two"):
        await search.index(Scope(user_id=user), "c", ENTRIES[:100])
    for _ in range(2):
        for scope in (SCOPE, Scope(user_id="one"), Scope(user_id="two")):
            async for fresh in opened(url):
                assert await search.query(scope, "c", QUERIES) == await fresh.query(scope, "c", QUERIES)
