"""Search on SQLite: the index of version 1, snapshots, and vectors beyond memory."""

import asyncio
from collections import Counter
from itertools import cycle
from pathlib import Path
from struct import pack
from typing import Any

import apsw
import pytest
from old_stores import OldSqlite

from wenmai.scope import Scope
from wenmai.stores import vector_matrices
from wenmai.stores.contracts import Search
from wenmai.stores.opening import open_store
from wenmai.stores.search_values import values_of
from wenmai.stores.sqlite import connection_threads, search, search_index, search_query, search_vectors
from wenmai.stores.structs import CollectionSize, Hit, Range, SearchEntry, SearchQuery, Where
from wenmai.text.cjk import terms

SCOPE = Scope()
ENTRIES = [
    SearchEntry(id="a", text="孝悌 孝", vector=[0.6, 0.8], fields={"year": "1644", "topics": ["孝", "悌"]}),
    SearchEntry(id="b", text="耕读", vector=[1.0, 0.0]),
    SearchEntry(id="c", text="孝友", fields={"year": "1700"}),
]
QUERIES = [
    SearchQuery(text="孝"),
    SearchQuery(vector=[1.0, 0.0]),
    SearchQuery(text="耕读", vector=[0.0, 1.0]),
    SearchQuery(text="孝", where={"topics": "悌"}),
    SearchQuery(text="孝", where={"year": Range(low="1650")}),
]


def _fill(old: OldSqlite) -> None:
    """Index the entries as version 1 did."""
    counts = [Counter(terms(entry.text)) for entry in ENTRIES]
    total = sum(each.total() for each in counts)
    old.rows(
        f"INSERT INTO search_partitions VALUES (1, 'default', 'default', 'anonymous', 0, 'c', 2, 3, {total})"  # noqa: S608
    )
    for row, (entry, counted) in enumerate(zip(ENTRIES, counts, strict=True), start=1):
        vector = f"x'{pack('2f', *entry.vector).hex()}'" if entry.vector else "NULL"
        old.rows(
            f"INSERT INTO search_entries VALUES ({row}, 1, '{entry.id}', {counted.total()}, {vector})"  # noqa: S608
        )
        for term, count in counted.items():
            old.rows(f"INSERT INTO search_postings VALUES (1, '{term}', {row}, {count})")  # noqa: S608
        for field, values in entry.fields.items():
            for value in values_of(values):
                old.rows(f"INSERT INTO search_fields VALUES (1, '{field}', '{value}', {row})")  # noqa: S608


def _fill_another_partition(old: OldSqlite, entries: int) -> None:
    """Entries of another user, with one word each; so many that their postings are in several blocks."""
    old.rows(
        f"INSERT INTO search_partitions VALUES (2, 'default', 'default', 'visitor', 0, 'c', 2, {entries}, {entries})"  # noqa: S608
    )
    [word] = terms("spruce")
    for row in range(10, 10 + entries):
        old.rows(f"INSERT INTO search_entries VALUES ({row}, 2, '{row:03}', 1, NULL)")  # noqa: S608
        old.rows(f"INSERT INTO search_postings VALUES (2, '{word}', {row}, 1)")  # noqa: S608


async def _hits(search: Search) -> list[list[Hit]]:
    return await search.query(SCOPE, "c", QUERIES)


async def test_an_old_index_finds_what_a_new_one_does(tmp_path: Path) -> None:
    """Scores, fields, vectors and filters are the same; entries are replaced, embedded and removed as in a new one."""
    old = OldSqlite(tmp_path / "old.db")
    _fill(old)
    _fill_another_partition(old, 300)
    async with open_store(old.url) as store, open_store(f"sqlite:///{tmp_path}/new.db") as fresh:
        assert store.search is not None
        assert fresh.search is not None
        await fresh.search.index(SCOPE, "c", ENTRIES)
        assert await _hits(store.search) == await _hits(fresh.search)
        assert [len(hits) for hits in await _hits(store.search)] == [2, 2, 2, 1, 1]
        assert await store.search.size(SCOPE, "c") == CollectionSize(3, 2)
        assert await store.search.without_vector(SCOPE, "c") == ["c"]
        for search in (store.search, fresh.search):
            await search.index(SCOPE, "c", [ENTRIES[2]])
            assert await search.embed(SCOPE, "c", [SearchEntry(id="c", text="孝友", vector=[0.8, 0.6])]) == 1
            assert await search.remove(SCOPE, "c", ["a"]) == 1
        visitor, query = Scope(user_id="visitor"), SearchQuery(text="spruce", limit=500)
        [hits] = await store.search.query(visitor, "c", [query])
        assert [hit.id for hit in hits] == [f"{row:03}" for row in range(10, 310)]
        assert await store.search.remove(visitor, "c", ["200"]) == 1
        [hits] = await store.search.query(visitor, "c", [query])
        assert "200" not in [hit.id for hit in hits]
        assert len(hits) == 299
        assert await _hits(store.search) == await _hits(fresh.search)


async def test_an_upgraded_index_has_the_tables_of_a_new_one(tmp_path: Path) -> None:
    """The statements that upgrade the tables and those that create them agree."""
    old, new = OldSqlite(tmp_path / "old.db"), OldSqlite(tmp_path / "new.db")
    (tmp_path / "new.db").unlink()
    for url in (old.url, new.url):
        async with open_store(url):
            pass
    tables = "SELECT name, replace(sql, '\"', '') FROM sqlite_schema WHERE tbl_name LIKE 'search_%' ORDER BY 1"
    assert old.rows(tables) == new.rows(tables)


async def test_vectors_beyond_memory_are_found_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition larger than the memory for vectors is read in blocks; filters, ids and ties are the same."""
    entries = [
        SearchEntry(
            id=f"{number % 7}-{number}",
            text=f"孝{number % 3}悌",
            vector=[float(number % 11), 1.0, float(number % 5)] if number % 4 else None,
            fields={"number": number},
        )
        for number in range(100)
    ]
    queries = [
        SearchQuery(vector=[1.0, 0.0, 2.0], limit=5),
        SearchQuery(vector=[1.0, 0.0, 2.0], limit=100),
        SearchQuery(text="孝", vector=[0.0, 0.0, 1.0], pool=10, where={"number": Range(low=20, high=90)}),
        SearchQuery(text="悌", vector=[0.0, 0.0, 1.0], ids=[entry.id for entry in entries[:12]]),
    ]
    async with open_store(f"sqlite:///{tmp_path}/wenmai.db") as store:
        assert store.search is not None
        await store.search.index(SCOPE, "c", entries)
        in_memory = await store.search.query(SCOPE, "c", queries)
        monkeypatch.setattr(vector_matrices, "MEMORY_BYTES", 0)
        monkeypatch.setattr(vector_matrices, "BLOCK_BYTES", 7 * 3 * 4)
        assert await store.search.query(SCOPE, "c", queries) == in_memory
        assert [len(hits) for hits in in_memory] == [5, 75, 10, 10]


async def test_words_and_vectors_are_of_one_snapshot(tmp_path: Path) -> None:
    """While another store replaces text, vector and field of an entry together, no search mixes two versions."""
    versions = [
        SearchEntry(id="a", text="孝", vector=[1.0, 0.0], fields={"version": "first"}),
        SearchEntry(id="a", text="悌", vector=[0.0, 1.0], fields={"version": "second"}),
    ]
    expected = {"first": (True, 1.0), "second": (False, 0.0)}
    query = SearchQuery(text="孝", vector=[1.0, 0.0])
    url = f"sqlite:///{tmp_path}/wenmai.db"
    async with open_store(url) as store, open_store(url) as other:
        assert store.search is not None
        assert other.search is not None
        await store.search.index(SCOPE, "c", versions[:1])
        seen = Counter[str]()
        for version in cycle(reversed(versions)):
            writing = asyncio.ensure_future(other.search.index(SCOPE, "c", [version]))
            while not writing.done():
                found = await asyncio.gather(*(store.search.query(SCOPE, "c", [query, query]) for _ in range(4)))
                for hit in (hit for both in found for hits in both for hit in hits):
                    seen[str(hit.fields["version"])] += 1
                    assert (hit.lexical > 0, hit.similarity) == expected[str(hit.fields["version"])]
                assert all(both[0] == both[1] for both in found)
            await writing
            if min(seen[name] for name in expected) > 100:
                return


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """The plan of each statement that a search or a write of its index has run."""
    explained: dict[str, list[str]] = {}

    def fetch(connection: apsw.Connection, sql: str, bindings: Any = ()) -> list[tuple[Any, ...]]:
        rows = connection_threads.fetch(connection, f"EXPLAIN QUERY PLAN {sql}", bindings)
        explained[sql] = [detail for *_, detail in rows]
        return connection_threads.fetch(connection, sql, bindings)

    for module in (search, search_index, search_query, search_vectors):
        monkeypatch.setattr(module, "fetch", fetch)
    return explained


async def test_no_statement_reads_a_whole_table(
    tmp_path: Path, plans: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Right after loading, without statistics, every statement looks up the rows that it needs by an index."""
    monkeypatch.setattr(search_query, "COUNTED", 10)  # so that some filters are wide
    entries = [
        SearchEntry(id=str(number), text="孝悌" if number < 3 else "耕读", vector=[1.0, number], fields={"n": number})
        for number in range(50)
    ]
    wheres: list[Where] = [{}, {"n": 3}, {"n": Range(low=3)}, {"n": Range(high=40.5), "t": ["x", "y"]}]
    async with open_store(f"sqlite:///{tmp_path}/wenmai.db") as store:
        assert store.search is not None
        await store.search.index(SCOPE, "c", entries)
        await store.search.index(SCOPE, "c", [SearchEntry(id="3", text="耕"), entries[4]])
        await store.search.embed(SCOPE, "c", [SearchEntry(id="3", text="耕", vector=[1.0, 0.0])])
        for ids in (None, ["1", "2"]):
            queries = [SearchQuery(text="孝悌", vector=[1.0, 0.0], where=where, ids=ids) for where in wheres]
            await store.search.query(SCOPE, "c", queries)
        await store.search.without_vector(SCOPE, "c")
        assert await store.search.remove(SCOPE, "c", ["1"]) == 1
        assert await store.search.remove(SCOPE, "c", where=wheres[2]) == 46
        await store.search.query(SCOPE, "c", [SearchQuery(vector=[1.0, 0.0])])
    assert sum(sql.startswith("SELECT j.value FROM") for sql in plans) == 1  # the same for words and for vectors
    assert len(plans) > 18
    steps = [step for plan in plans.values() for step in plan]
    assert [step for step in steps if step.startswith(("SCAN search", "SCAN e", "SCAN p", "SCAN v", "SCAN f"))] == []
