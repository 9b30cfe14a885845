"""Search on PostgreSQL: snapshots, round trips, and the index of version 1."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from itertools import cycle
from typing import Any

import asyncpg
import pytest
from old_stores import OldPostgresql

from postgres_server import PostgresServer
from wenmai.clock import system_clock
from wenmai.errors import StoreUnavailable
from wenmai.scope import Scope
from wenmai.stores.contracts import Search
from wenmai.stores.postgresql import open_store
from wenmai.stores.postgresql.database import Database
from wenmai.stores.postgresql.pool import PooledConnection
from wenmai.stores.structs import CollectionSize, Hit, Range, SearchEntry, SearchQuery, WeightedFusion

pytestmark = pytest.mark.xdist_group("postgresql")

SCOPE = Scope()


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    """An empty database."""
    return postgres_server.store()


@pytest.fixture
async def search(url: str) -> AsyncIterator[Search]:
    """The search of a store in that database."""
    async with open_store(url, clock=system_clock) as store:
        yield store.search


@pytest.fixture
async def other(url: str, search: Search) -> AsyncIterator[Search]:
    """That of another store in the same database, as another process has it."""
    async with open_store(url, clock=system_clock) as store:
        yield store.search


async def hits(search: Search, **query: Any) -> list[Hit]:
    """The hits of one query in the collection."""
    [found] = await search.query(SCOPE, "c", [SearchQuery(**query)])
    return found


@pytest.mark.parametrize("query", [{}, {"vector": [1.0], "pool": 5}, {"where": {"language": "en"}}], ids=str)
async def test_many_equal_entries_are_ordered_by_id(search: Search, query: dict[str, Any]) -> None:
    """However many equal the last of the best by words."""
    numbers = range(1_100)
    equal = [SearchEntry(id=f"{number:04}", text="耕读", fields={"language": "en"}) for number in reversed(numbers)]
    await search.index(SCOPE, "c", [SearchEntry(id="best", text="耕读耕读", fields={"language": "en"}), *equal])
    found = await hits(search, text="耕读", limit=5, **query)
    assert [hit.id for hit in found] == ["best", "0000", "0001", "0002", "0003"]


async def test_words_and_vectors_are_of_one_snapshot(search: Search, other: Search) -> None:
    """While another store replaces text, vector and field of an entry together, no search mixes two versions."""
    versions = [
        SearchEntry(id="a", text="孝", vector=[1.0, 0.0], fields={"version": "first"}),
        SearchEntry(id="a", text="悌", vector=[0.0, 1.0], fields={"version": "second"}),
    ]
    expected = {"first": (True, 1.0), "second": (False, 0.0)}
    await search.index(SCOPE, "c", [versions[0], *(SearchEntry(id=f"{n}", text="睦邻") for n in range(50))])
    searching = True

    async def write() -> None:
        for version in cycle(reversed(versions)):
            await other.index(SCOPE, "c", [version])
            if not searching:
                return

    writing = asyncio.create_task(write())
    seen = Counter[str]()
    try:
        for _ in range(150):
            for where in ({}, {"version": "first"}):
                for hit in await hits(search, text="孝", vector=[1.0, 0.0], where=where):
                    version = str(hit.fields["version"])
                    seen[version] += 1
                    assert (hit.lexical > 0, hit.similarity) == expected[version]
                    assert not where or version == "first"
    finally:
        searching = False
        await writing
    assert set(seen) == set(expected)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements and transactions that searches begin, each a round trip."""
    begun: list[str] = []
    fetch, enter = Database.fetch, PooledConnection.__aenter__

    async def counted(self: Database, sql: str, *arguments: Any) -> Any:
        begun.append("statement")
        return await fetch(self, sql, *arguments)

    async def entered(self: PooledConnection) -> Any:
        begun.append("connection")
        return await enter(self)

    monkeypatch.setattr(Database, "fetch", counted)
    monkeypatch.setattr(PooledConnection, "__aenter__", entered)
    return begun


async def test_a_search_takes_one_round_trip_while_vectors_and_scores_in_memory_are_current(
    search: Search, statements: list[str]
) -> None:
    """Twenty queries by words, or by words and vector, are one statement.

    Words that were not asked before take another one, and so does a filter of vectors.
    """
    await search.index(SCOPE, "c", [SearchEntry(id="a", text="孝", vector=[1.0, 0.0], fields={"year": 1})])
    await hits(search, vector=[1.0, 0.0])
    both = SearchQuery(text="孝", vector=[1.0, 0.0])
    filtered = SearchQuery(text="孝", vector=[1.0, 0.0], where={"year": Range(low=1)})
    for queries, most in (
        ([SearchQuery(text="孝", where={"year": 1}), SearchQuery(text="孝 a")] * 10, 2),
        ([SearchQuery(text="孝", where={"year": 1})] * 20, 1),
        ([both] * 20, 1),
        ([SearchQuery(text="孝", vector=[1.0, 0.0], ids=["a"], where={"year": 1})] * 20, 1),
        ([filtered, both] * 10, 2),
    ):
        statements.clear()
        found = await search.query(SCOPE, "c", queries)
        assert [[hit.id for hit in each] for each in found] == [["a"]] * 20
        assert statements == ["statement", "connection"] * most


@pytest.mark.parametrize("fusion", [{}, {"fusion": WeightedFusion()}], ids=["rank", "weighted"])
async def test_vectors_that_do_not_fit_into_memory_are_read_in_blocks(
    fusion: dict[str, Any], search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hits are those of a search in memory."""
    entries = [
        SearchEntry(id=f"{n}", text="孝 " * (n % 9), vector=[n % 50, 50 - n % 40, 1.0], fields={"year": n % 7})
        for n in range(500)
    ]
    await search.index(SCOPE, "c", entries)
    queries = [
        SearchQuery(text="孝", vector=[1.0, 2.0, 0.0], pool=20, **fusion),
        SearchQuery(vector=[1.0, 1.0, 1.0], limit=3),
        SearchQuery(vector=[0.0, 1.0, 1.0], limit=30, where={"year": [2, 4]}),
        SearchQuery(text="孝", vector=[1.0, 2.0, 0.0], ids=["1", "44", "absent"], **fusion),
    ]
    in_memory = await search.query(SCOPE, "c", queries)
    assert [len(found) for found in in_memory] == [10, 3, 30, 2]
    monkeypatch.setattr("wenmai.stores.vector_matrices.MEMORY_BYTES", 0)
    monkeypatch.setattr("wenmai.stores.vector_matrices.BLOCK_BYTES", 64 * 3 * 4)
    assert await search.query(SCOPE, "c", queries) == in_memory


_REFUSED_DELETE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
CREATE TRIGGER refused BEFORE DELETE ON search_entries FOR EACH ROW WHEN (old.id = '2400') EXECUTE FUNCTION refuse();
"""


async def test_many_entries_are_removed_by_filter_all_or_none(search: Search, url: str) -> None:
    """More than one statement removes; if a later one fails, none has removed anything."""
    entries = [SearchEntry(id=f"{n}", text="孝", vector=[1.0], fields={"year": n}) for n in range(2_500)]
    await search.index(SCOPE, "c", entries)
    where = {"year": Range(low=10)}
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(_REFUSED_DELETE)
        with pytest.raises(StoreUnavailable, match="not this one"):
            await search.remove(SCOPE, "c", where=where)
        assert await search.size(SCOPE, "c") == CollectionSize(2_500, 2_500)
        await connection.execute("DROP TRIGGER refused ON search_entries")
    finally:
        await connection.close()
    assert await search.remove(SCOPE, "c", where=where) == 2_490
    assert await search.size(SCOPE, "c") == CollectionSize(10, 10)
    assert len(await hits(search, text="孝", vector=[1.0], limit=100)) == 10


_OLD_INDEX = (
    """INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, dimension, entries, length)
    VALUES ('default', 'default', 'anonymous', FALSE, 'c', 2, 3, 8)""",
    """INSERT INTO search_entries (partition, id, length, vector)
    VALUES (1, 'a', 3, '[3, 4]'), (1, 'b', 3, '[-0.5, 0]'), (1, 'c', 2, NULL)""",
    """INSERT INTO search_postings (partition, term, entry, count)
    VALUES (1, '孝', 1, 1), (1, '悌', 1, 1), (1, '孝悌', 1, 1), (1, '孝', 2, 3), (1, 'plough', 3, 2)""",
    """INSERT INTO search_fields (partition, field, value, entry)
    VALUES (1, 'domain', '家训', 1), (1, 'domain', '农事', 1), (1, 'ref', U&'a\\+10FFFF' || '0b"', 1),
      (1, 'ref', '2', 2)""",
)
"""Three entries as version 1 wrote them."""


async def test_an_old_index_keeps_words_vectors_and_fields(postgres_server: PostgresServer) -> None:
    """Entries of version 1 are found by words, by vector and by value, and hits have their fields."""
    old = await asyncio.to_thread(OldPostgresql, postgres_server.database())
    for sql in _OLD_INDEX:
        await asyncio.to_thread(old.rows, sql)
    async with open_store(old.url, clock=system_clock) as store:
        search = store.search
        assert await search.size(SCOPE, "c") == CollectionSize(3, 2)
        assert await search.without_vector(SCOPE, "c") == ["c"]
        near = await hits(search, vector=[1.0, 0.0])
        assert [(hit.id, round(hit.similarity or 0, 6)) for hit in near] == [("a", 0.6), ("b", -1.0)]
        assert near[1].fields == {"ref": "2"}
        first = near[0].fields
        assert (sorted(first["domain"]), first["ref"]) == (["农事", "家训"], 'a\0b"')  # type: ignore[arg-type]
        for where in ({"domain": "家训"}, {"ref": 'a\0b"'}, {"ref": Range(low="a", high="b")}):
            assert [hit.id for hit in await hits(search, text="孝悌 孝", where=where)] == ["a"]
        await search.index(SCOPE, "c", [SearchEntry(id="b", text="耕读", vector=[0.0, 1.0])])
        assert [hit.id for hit in await hits(search, vector=[0.0, 1.0])] == ["b", "a"]
        assert await search.remove(SCOPE, "c", where={"domain": "农事"}) == 1
        assert await search.size(SCOPE, "c") == CollectionSize(2, 1)


_MANY_OLD = (
    """INSERT INTO search_partitions (tenant_id, site_id, user_id, shared, collection, entries, length)
    SELECT 'default', 'default', u, FALSE, 'c', 200, 200 * 3 FROM unnest(ARRAY['other', 'anonymous']) u""",
    """INSERT INTO search_entries (partition, id, length)
    SELECT 1 + n % 2, (n / 2)::text, 2 + n / 2 % 3 FROM generate_series(0, 399) n""",
    """UPDATE search_partitions p
    SET length = (SELECT sum(length) FROM search_entries e WHERE e.partition = p.partition)""",
    """INSERT INTO search_postings (partition, term, entry, count)
    SELECT partition, 'plough', entry, length - 1 FROM search_entries
    UNION ALL SELECT partition, id, entry, 1 FROM search_entries""",
)
"""The entries of :func:`many`, those of two users in turn, as version 1 wrote them."""


def many(numbers: Iterable[int]) -> list[SearchEntry]:
    """Entries with a common word, once to three times, and one of their own."""
    return [SearchEntry(id=f"{n}", text=f"{'plough ' * (1 + n % 3)}{n}", fields={"even": n % 2}) for n in numbers]


async def scores(search: Search, collection: str) -> list[list[tuple[str, float, float]]]:
    """All hits of some words."""
    queries = [SearchQuery(text=text, limit=500) for text in ("plough", "hoe", "7 131 plough", "12")]
    found = await search.query(SCOPE, collection, queries)
    return [[(hit.id, hit.lexical, hit.coverage) for hit in each] for each in found]


async def test_an_old_index_is_searched_and_changed_as_a_new_one(postgres_server: PostgresServer) -> None:
    """Old entries of several users lie between each other; scores are those of an index that was always new."""
    old = await asyncio.to_thread(OldPostgresql, postgres_server.database())
    for sql in _MANY_OLD:
        await asyncio.to_thread(old.rows, sql)
    async with open_store(old.url, clock=system_clock) as store:
        search = store.search
        await search.index(SCOPE, "new", many(range(200)))
        assert await scores(search, "c") == await scores(search, "new")
        for collection in ("c", "new"):
            await search.index(SCOPE, collection, many(range(200, 300)))
            await search.index(SCOPE, collection, [SearchEntry(id=f"{n}", text="hoe 7") for n in (3, 130, 250)])
            assert await search.remove(SCOPE, collection, ["7", "131", "270", "absent"]) == 3
        assert await scores(search, "c") == await scores(search, "new")


async def test_removed_and_replaced_entries_leave_no_posting(search: Search, url: str) -> None:
    """Of a block that they share with others, those of the others are left; an empty block is no row."""
    await search.index(SCOPE, "c", many(range(300)))
    await search.index(
        SCOPE, "c", [SearchEntry(id=f"{n}", text="hoe", fields={"even": n % 2}) for n in range(0, 300, 3)]
    )
    assert await search.remove(SCOPE, "c", [f"{n}" for n in range(200)]) == 200
    assert await search.remove(SCOPE, "c", where={"even": 0}) == 50
    left = [n for n in range(201, 300, 2) if n % 3]
    connection = await asyncpg.connect(url)
    try:
        rows = await connection.fetch("SELECT term, sum(length(postings)) / 8 AS n FROM search_postings GROUP BY term")
        assert dict(map(tuple, rows)) == {"plough": len(left), "hoe": 17} | dict.fromkeys(map(str, left), 1)
        await search.remove(SCOPE, "c", where={"even": 1})
        assert await connection.fetchval("SELECT count(*) FROM search_postings") == 0
    finally:
        await connection.close()


async def test_an_old_index_without_its_extension_loses_only_the_vectors(postgres_server: PostgresServer) -> None:
    """If pgvector's library has gone, entries are kept, and listed as without a vector."""
    old = await asyncio.to_thread(OldPostgresql, postgres_server.database())
    for sql in (*_OLD_INDEX, "UPDATE pg_proc SET probin = '$libdir/gone' WHERE probin = '$libdir/vector'"):
        await asyncio.to_thread(old.rows, sql)
    async with open_store(old.url, clock=system_clock) as store:
        assert await store.search.size(SCOPE, "c") == CollectionSize(3, 0)
        assert await store.search.without_vector(SCOPE, "c") == ["a", "b", "c"]
        assert [hit.id for hit in await hits(store.search, text="孝悌 孝")] == ["a", "b"]


async def test_a_new_database_has_no_extension(url: str, search: Search) -> None:
    """Vectors need none."""
    await search.index(SCOPE, "c", [SearchEntry(id="a", text="孝", vector=[1.0])])
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM pg_extension WHERE extname = 'vector'") == 0
    finally:
        await connection.close()
