"""Query plans of PostgreSQL: lookups use the key's index, whatever the number of records and the statistics."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import uuid4

import pytest

from postgres_server import PostgresServer
from wenmai.clock import MovableClock, system_clock
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.postgresql import open_store
from wenmai.stores.postgresql.address import parse_url
from wenmai.stores.postgresql.database import Database, connect
from wenmai.stores.postgresql.search_query import ENTRIES, POSTINGS, arguments, depth, terms_of
from wenmai.stores.postgresql.tables import LISTING_HINT, by_key
from wenmai.stores.records import RECORDS, NewMessage, Record, Session
from wenmai.stores.structs import Range, SearchEntry, SearchQuery, Where
from wenmai.stores.word_scores import BLOCK, Sums, WordScores, from_joined

pytestmark = pytest.mark.xdist_group("postgresql")

SCOPE = Scope()


@pytest.fixture(scope="module")
def empty_database(postgres_process: PostgresServer) -> str:
    """A database without rows: the statistics of a few would change the plans."""
    return postgres_process.store()


async def plan(database: str, sql: str) -> str:
    """The generic plan of a statement, on a connection like the store's."""
    connection = await connect(parse_url(database))
    try:
        name = f"p{uuid4().hex}"
        await connection.execute(f"PREPARE {name} AS {sql}")
        nulls = ", ".join(["NULL"] * len(set(re.findall(r"\$\d+", sql))))
        return "\n".join(row[0] for row in await connection.fetch(f"EXPLAIN EXECUTE {name}({nulls})"))
    finally:
        await connection.close()


@pytest.mark.parametrize("of", RECORDS, ids=lambda record: record.spec.collection)
async def test_a_lookup_by_key_uses_the_key_index(of: type[Record], empty_database: str) -> None:
    """Even without statistics; the index of a listing would read all records of the owner."""
    async with open_store(empty_database, clock=system_clock):
        found = await plan(empty_database, by_key(of))
    columns = f"{of.spec.collection}_tenant_id_site_id_{of.spec.key}_key"
    assert f"Index Scan using {columns} on" in found


async def test_a_listing_uses_its_index(empty_database: str) -> None:
    """The index yields the newest first, without a sort."""
    async with open_store(empty_database, clock=system_clock):
        found = await plan(
            empty_database,
            "SELECT session_id FROM conversations WHERE tenant_id = $1 AND site_id = $2 AND user_id = $3 "  # noqa: S608 — no input
            f"AND {LISTING_HINT} ORDER BY created_at DESC, session_id DESC LIMIT 21",
        )
    assert "using conversations_by_age on" in found
    assert "Sort" not in found


def rows_read(node: dict[str, Any], table: str) -> int:
    """The rows of a table that an executed plan has read, including discarded ones."""
    own = 0
    if node.get("Relation Name") == table:
        removed = sum(count for name, count in node.items() if name.startswith("Rows Removed by"))
        own = round((node["Actual Rows"] + removed) * node["Actual Loops"])
    return own + sum(rows_read(part, table) for part in node.get("Plans", ()))


RARE, COMMON = 5, 1_500
"""Entries with the rare word, and with the common one."""


def entries() -> list[SearchEntry]:
    """Entries of different lengths, all with a vector and in English."""
    return [
        SearchEntry(id=f"{word}-{n}", text=f"{word} {'x ' * n}", vector=[1.0, n], fields={"language": "en", "year": n})
        for word, count in (("孤本", RARE), ("祠堂", COMMON))
        for n in range(count)
    ]


WHERE: tuple[Where, ...] = ({}, {"language": "en"}, {"year": Range(low=0, high=COMMON)})


def written(value: object) -> str:
    """A value as PostgreSQL reads it."""
    return f"{{{','.join(map(str, value))}}}" if isinstance(value, list) else str(value)


class Plans(NamedTuple):
    """The executed plans of a search."""

    postings: dict[str, Any]
    entries: dict[str, Any]


Explain = Callable[[SearchQuery], Awaitable[Plans]]


@pytest.fixture(params=["empty", "analysed"])
async def searched(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Explain]:
    """Runs a search and returns the plans with the rows read; planned on empty tables, or with all statistics."""
    url = postgres_server.store()
    async with open_store(url, clock=system_clock) as store:
        connection = await connect(parse_url(url))
        prepare = f"PREPARE postings AS {POSTINGS}; PREPARE entries AS {ENTRIES}"
        await connection.execute(prepare)
        owner = ", ".join(f"'{part}'" for part in SCOPE)

        async def explained(statement: str, *given: str) -> dict[str, Any]:
            values = ", ".join(f"'{each}'" for each in given)
            execute = f"EXECUTE {statement} ({owner}, FALSE, 'c', {values})"
            found = json.loads(await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {execute}"))
            plan: dict[str, Any] = found[0]["Plan"]
            return plan

        async def run(query: SearchQuery) -> Plans:
            terms = terms_of(query)
            rows = await connection.fetch(POSTINGS, *SCOPE, False, "c", terms)
            blocks = [
                (n, block, size)
                for n, row in enumerate(rows)
                for block, size in zip(row["blocks"] or (), row["sizes"] or (), strict=True)
            ]
            numbers, places, sizes = zip(*blocks, strict=True) if blocks else ((), (), ())
            joined = b"".join(row["postings"] or b"" for row in rows)
            postings = from_joined(numbers, places, sizes, joined, len(rows))
            scores = WordScores(Sums(2 * COMMON, 2 * COMMON), postings)
            rows = await connection.fetch("SELECT entry FROM search_vectors ORDER BY number LIMIT 10")
            nearest = [row["entry"] for row in rows] if query.vector else []
            best = [] if query.ids else list(scores.best(depth(query)))
            given = arguments([query], [[*best, *nearest]], [0] if query.where else [])
            entries = await explained("entries", *map(written, given))
            return Plans(await explained("postings", written(terms)), entries)

        try:
            await run(SearchQuery(text="孤本"))
            await store.search.index(SCOPE, "c", entries())
            await store.search.index(SCOPE._replace(user_id="other"), "c", entries())
            if request.param == "analysed":
                await connection.execute(f"ANALYZE; DEALLOCATE postings; DEALLOCATE entries; {prepare}")
            yield run
        finally:
            await connection.close()


async def words_read_only_their_postings(searched: Explain) -> None:
    """A connection may keep a plan made on empty tables: a rare word is still found through the index.

    Among all entries, by value and by range.
    """
    for where in WHERE:
        plans = await searched(SearchQuery(text="孤本", where=where))
        assert rows_read(plans.postings, "search_postings") == 1, where
        assert rows_read(plans.entries, "search_entries") == RARE, where
        assert rows_read(plans.entries, "search_fields") == RARE * len(where), where


async def only_the_pool_is_read(searched: Explain) -> None:
    """A common word is ranked by its postings, a vector in memory; only the best entries are read, and no vector."""
    plans = await searched(SearchQuery(text="祠堂", limit=10))
    blocks = rows_read(plans.postings, "search_postings")
    assert COMMON / BLOCK <= blocks <= COMMON / BLOCK + 1
    assert rows_read(plans.entries, "search_entries") == 10
    plans = await searched(SearchQuery(text="孤本 祠堂", vector=[1.0, 0.0], limit=10, pool=20))
    assert rows_read(plans.entries, "search_entries") <= 20 + 10
    assert rows_read(plans.entries, "search_vectors") == 0
    assert rows_read(plans.postings, "search_postings") == blocks + 1


async def ids_are_looked_up_alone(searched: Explain) -> None:
    """Their scores are those of the words; no other entry is read."""
    plans = await searched(SearchQuery(text="祠堂", ids=["祠堂-1", "祠堂-2", "孤本-1", "absent"]))
    assert rows_read(plans.entries, "search_entries") == 3


async def test_a_search_reads_only_the_rows_that_it_needs(searched: Explain) -> None:
    """With the plans of empty tables, and with all statistics."""
    await words_read_only_their_postings(searched)
    await only_the_pool_is_read(searched)
    await ids_are_looked_up_alone(searched)


async def test_a_taken_number_is_not_an_error(postgres_server: PostgresServer) -> None:
    """A statement that violates the unique index does nothing, and the connection remains usable."""
    url = postgres_server.store()
    async with open_store(url, clock=system_clock) as store:
        end = system_clock() + timedelta(days=1)
        await store.documents.put(SCOPE, Session(session_id="s", expires_at=end, lifetime_seconds=86_400))
        said = [NewMessage(role="user", content="one"), NewMessage(role="assistant", content="two")]
        await store.logs.append(SCOPE, ThreadKey("s", "assistant"), said)
        database = Database(parse_url(f"{url}&max_connections=1"))
        again = (
            "INSERT INTO messages (thread, seq, turn_id, role, content, timestamp, tokens, completed) "
            "SELECT thread, seq + $1, turn_id, role, content, timestamp, tokens, completed FROM messages RETURNING seq"
        )
        try:
            assert await database.fetch_unless_conflict(again, 1) == []
            assert [row["seq"] for row in await database.fetch_unless_conflict(again, 2)] == [3, 4]
        finally:
            await database.close()
        kept = await store.logs.read(SCOPE, ThreadKey("s", "assistant"))
    assert [message.content for message in kept] == ["one", "two", "one", "two"]


async def test_an_append_slides_its_session_once_a_second_at_most(postgres_server: PostgresServer) -> None:
    """The fast path moves the expiry of the session like append_messages."""
    clock = MovableClock()
    lifetime, ends = timedelta(hours=1), []
    async with open_store(postgres_server.store(), clock=clock) as store:
        end = clock() + lifetime
        await store.documents.put(SCOPE, Session(session_id="s", expires_at=end, lifetime_seconds=3_600))
        for milliseconds in (0, 10, 890, 100, 500, 600):
            clock.advance(timedelta(milliseconds=milliseconds))
            await store.logs.append(SCOPE, ThreadKey("s", "assistant"), [NewMessage(role="user", content="so")], tail=3)
            stored = await store.documents.get(SCOPE, Session, "s")
            assert stored is not None
            ends.append((stored.record.expires_at - end) // timedelta(milliseconds=1))
    assert ends == [0, 0, 0, 1_000, 1_000, 2_100]
