"""PostgreSQL store: checks at opening, failures, and tables."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import asyncpg
import pytest

from postgres_server import LOCKED_USER, PASSWORD, PostgresServer
from wenmai.clock import MovableClock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound, StoreTooNew, StoreUnavailable
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.conformance.incarnations import bound_records
from wenmai.stores.conformance.samples import trace, without_incarnation
from wenmai.stores.postgresql import PostgresqlStore, open_store
from wenmai.stores.postgresql.ddl import definitions_of, table_ddl
from wenmai.stores.records import RECORDS, NewMessage, Preferences, Session, TraceRecord
from wenmai.stores.sql.migrations import REVISION, VERSION_TABLE
from wenmai.stores.structs import Range, SearchEntry, SearchQuery

pytestmark = pytest.mark.xdist_group("postgresql")

SCOPE = Scope()
THREAD = ThreadKey("session-1", "assistant")
SECRET = quote(PASSWORD, safe="")


def session(session_id: str = "session-1") -> Session:
    """A session that outlives the test."""
    end = system_clock() + timedelta(days=1)
    return Session(session_id=session_id, expires_at=end, lifetime_seconds=86_400)


def said(text: str) -> list[NewMessage]:
    """One turn."""
    return [NewMessage(role="user", content=text), NewMessage(role="assistant", content=text)]


_NOTE_REMOVALS = """
CREATE TABLE removals (name text, removed bigint);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO removals SELECT TG_TABLE_NAME, count(*) FROM gone HAVING count(*) > 0;
  RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER DELETE ON messages REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note();
CREATE TRIGGER noted AFTER DELETE ON traces REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION note();
"""
"""Records in a table how many rows each statement removes."""


@pytest.fixture
def url(postgres_server: PostgresServer) -> str:
    """The URL of an empty store."""
    return postgres_server.store()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[PostgresqlStore]:
    """The store with a session in it."""
    async with open_store(url, clock=system_clock) as store:
        await store.documents.put(SCOPE, session())
        yield store


async def refusal(url: str) -> str:
    """The InvalidInput message when the URL cannot be used."""
    with pytest.raises(InvalidInput) as caught:
        async with open_store(url, clock=system_clock):
            pass
    return str(caught.value)


async def test_a_password_is_required_and_never_shown(postgres_server: PostgresServer) -> None:
    """A wrong password and a missing one are refused, naming the setting; the right one, escaped, opens."""
    url = postgres_server.database()
    database = url.partition("?")[0].rpartition("/")[2]
    postgres_server.sql(f"GRANT CREATE ON DATABASE {database} TO {LOCKED_USER}")
    for user in (LOCKED_USER, f"{LOCKED_USER}:wr0ng"):
        message = await refusal(postgres_server.url(database, user))
        assert message.startswith("store: ")
        assert "password" in message
        assert "wr0ng" not in message
    message = await refusal(postgres_server.url(database, f"{LOCKED_USER}:{SECRET}"))
    assert "create tables" in message
    assert PASSWORD not in message
    async with open_store(url, clock=system_clock):
        pass
    postgres_server.sql(f"\\c {database}\nGRANT ALL ON ALL TABLES IN SCHEMA public TO {LOCKED_USER}")
    async with opened(postgres_server.url(database, f"{LOCKED_USER}:{SECRET}")) as store:
        assert len((await store.logs.append(SCOPE, THREAD, said("孝"))).messages) == 2


async def test_a_missing_database_is_named(postgres_server: PostgresServer) -> None:
    """The error names the missing database."""
    message = await refusal(postgres_server.url("nowhere"))
    assert "store: " in message
    assert '"nowhere" does not exist' in message


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("postgresql://u:p/w@host:5432/db", "special characters escaped"),
        ("postgresql://u:pw@host:port/db", "special characters escaped"),
        ("postgresql://host/db?max_connections=0", "store.max_connections: '0' is not a number from 1"),
        ("postgresql://host/db?max_connections=many", "store.max_connections"),
        ("postgresql://host/db?statement_timeout=5s", "store.statement_timeout"),
        ("postgresql://host/db?connect_timeout=", "store.connect_timeout"),
        ("postgresql://host/db?sslmode=perhaps", "store: "),
    ],
)
async def test_an_invalid_url_is_refused(url: str, message: str) -> None:
    """The error says what is wrong, without the user part."""
    found = await refusal(url)
    assert message in found
    assert "u:p" not in found


async def test_an_unknown_server_parameter_is_refused(url: str) -> None:
    """A typo in the URL is reported in the server's words."""
    assert 'parameter "pol"' in await refusal(f"{url}&pol=3")


@pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/db", "postgresql:///db?host=/nowhere"])
async def test_an_unreachable_server_is_unavailable(url: str) -> None:
    """A refused connection may be retried later; the error names the server."""
    with pytest.raises(StoreUnavailable, match="no connection to postgresql://") as caught:
        async with open_store(url, clock=system_clock):
            pass
    assert caught.value.retry_after > 0


async def test_a_server_that_never_answers_times_out() -> None:
    """Opening ends within the connect timeout, whatever accepts the connection."""
    held = asyncio.Event()

    async def silent(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await held.wait()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        async with asyncio.timeout(10):
            with pytest.raises(StoreUnavailable, match=r"in time|no connection"):
                async with open_store(f"postgresql://u:pw@127.0.0.1:{port}/db?connect_timeout=1", clock=system_clock):
                    pass
    finally:
        held.set()
        server.close()
        await server.wait_closed()


async def test_a_newer_schema_is_refused_and_not_changed(url: str) -> None:
    """The error names both versions and what to do."""
    async with open_store(url, clock=system_clock):
        pass
    connection = await asyncpg.connect(url)
    await connection.execute(f"UPDATE {VERSION_TABLE} SET version_num = '0999'")  # noqa: S608 — a name of ours
    with pytest.raises(StoreTooNew, match=rf"999.*up to {int(REVISION)}.*upgrade Wenmai"):
        async with open_store(url, clock=system_clock):
            pass
    assert await connection.fetchval(f"SELECT version_num FROM {VERSION_TABLE}") == "0999"  # noqa: S608 — the same
    await connection.close()


async def test_another_programs_tables_are_not_changed(postgres_server: PostgresServer) -> None:
    """If a table of the same name belongs to another program, no tables are added."""
    url = postgres_server.database()
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE TABLE conversations (theirs int)")
    with pytest.raises(StoreUnavailable, match="another program"):
        async with open_store(url, clock=system_clock):
            pass
    tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert [row["tablename"] for row in tables] == ["conversations"]
    await connection.close()


async def test_four_concurrent_opens_create_one_schema(postgres_server: PostgresServer) -> None:
    """Of processes that start together on an empty database, one creates the tables and the others wait for it."""
    url = postgres_server.database()

    async def use(number: int) -> int:
        async with open_store(url, clock=system_clock) as store:
            await store.documents.put(SCOPE, session(f"s{number}"))
            return len((await store.logs.append(SCOPE, ThreadKey(f"s{number}", "elder"), said("孝"))).messages)

    assert await asyncio.gather(*map(use, range(4))) == [2] * 4


async def test_a_current_schema_needs_no_alembic(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Migrations are loaded only for an outdated schema."""
    async with open_store(url, clock=system_clock):
        pass

    def fails(_revision: int) -> str:
        raise AssertionError("the current schema was treated as outdated")

    monkeypatch.setattr("wenmai.stores.postgresql.schema.upgrade_script", fails)
    async with open_store(url, clock=system_clock):
        pass


async def test_the_tables_match_the_record_declarations(url: str) -> None:
    """Columns, their types and the indexes are those that a declaration creates; a new field needs a revision."""
    async with open_store(url, clock=system_clock):
        pass
    connection = await asyncpg.connect(url)
    await connection.execute("CREATE SCHEMA declared; SET search_path = declared")
    for record in RECORDS:
        for statement in table_ddl(record.spec, definitions_of(record)):
            await connection.execute(statement)
    columns = (
        "SELECT table_name, column_name, data_type, is_nullable, collation_name FROM information_schema.columns "
        "WHERE table_schema = $1 AND table_name = ANY($2::text[]) ORDER BY 1, 2"
    )
    indexes = (
        "SELECT replace(indexdef, schemaname || '.', '') FROM pg_indexes "
        "WHERE schemaname = $1 AND tablename = ANY($2::text[]) ORDER BY 1"
    )
    for sql in (columns, indexes):
        names = [record.spec.collection for record in RECORDS]
        migrated, declared = [await connection.fetch(sql, schema, names) for schema in ("public", "declared")]
        assert [tuple(row) for row in migrated] == [tuple(row) for row in declared]
    await connection.close()


async def test_a_stopped_server_is_reported_and_used_again(postgres_server: PostgresServer, url: str) -> None:
    """While the server is down every call raises StoreUnavailable; once it is back the same store works again."""
    async with opened(url) as store:
        await store.logs.append(SCOPE, THREAD, said("before"))
        await asyncio.to_thread(postgres_server.stop)
        try:
            async with asyncio.timeout(10):
                for call in (store.ping, lambda: store.logs.append(SCOPE, THREAD, said("lost"))):
                    with pytest.raises(StoreUnavailable) as caught:
                        await call()
                    assert caught.value.store == "postgresql"
        finally:
            await asyncio.to_thread(postgres_server.start)
        await store.logs.append(SCOPE, THREAD, said("after"))
        kept = await store.logs.read(SCOPE, THREAD)
    assert [(message.seq, message.content) for message in kept] == [
        (1, "before"),
        (2, "before"),
        (3, "after"),
        (4, "after"),
    ]


async def test_a_hanging_server_times_out(postgres_server: PostgresServer, url: str) -> None:
    """A statement on a silent connection times out; the next one gets a new connection."""
    async with opened(f"{url}&statement_timeout=500") as store:
        await store.ping()
        [backend] = postgres_server.backends("SELECT 1")
        os.kill(backend, signal.SIGSTOP)
        try:
            async with asyncio.timeout(10):
                with pytest.raises(StoreUnavailable, match="in time"):
                    await store.ping()
                await store.ping()
        finally:
            os.kill(backend, signal.SIGCONT)


async def test_a_statement_has_a_timeout(url: str) -> None:
    """A write that waits too long for a lock gets an error and stores nothing."""
    async with opened(f"{url}&statement_timeout=300") as store:
        await store.logs.append(SCOPE, THREAD, said("before"))
        other = await asyncpg.connect(url)
        async with other.transaction():
            await other.execute("LOCK TABLE messages IN EXCLUSIVE MODE")
            with pytest.raises(StoreUnavailable, match="statement timeout"):
                await store.logs.append(SCOPE, THREAD, said("lost"))
        await other.close()
        assert [message.content for message in await store.logs.read(SCOPE, THREAD)] == ["before"] * 2


async def test_waiting_for_a_connection_has_a_timeout(url: str) -> None:
    """When all connections are in use, other calls time out; afterwards everything works again."""
    async with opened(f"{url}&max_connections=1&connect_timeout=1") as store:
        async with store._database.transaction():
            with pytest.raises(StoreUnavailable, match="all 1 connections were busy for 1 s"):
                await store.ping()
        await asyncio.gather(*(store.ping() for _ in range(20)))


async def test_a_cancelled_call_affects_no_other(url: str) -> None:
    """Cancelled appends leave whole batches, and the pool's slots are released."""
    async with opened(f"{url}&max_connections=2") as store:
        tasks = [asyncio.create_task(store.logs.append(SCOPE, THREAD, said(str(n)))) for n in range(50)]
        await asyncio.sleep(0.02)
        for task in tasks[::2]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        kept = await store.logs.read(SCOPE, THREAD)
    assert [message.seq for message in kept] == list(range(1, len(kept) + 1))
    assert {str(n) for n in range(1, 50, 2)} <= {message.content for message in kept}
    assert all(question.content == answer.content for question, answer in zip(kept[::2], kept[1::2], strict=True))


async def test_appends_race_with_a_session_delete(url: str) -> None:
    """Appends during the delete are stored before it or find the session absent; no rows are left."""
    async with opened(url) as store:
        for _ in range(10):
            await store.documents.put(SCOPE, session())
            outcomes = await asyncio.gather(
                *(store.logs.append(SCOPE, ThreadKey("session-1", f"npc-{n % 4}"), said(str(n))) for n in range(12)),
                store.documents.delete(SCOPE, Session, "session-1"),
                store.logs.erase(SCOPE, "session-1"),
                return_exceptions=True,
            )
            assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {SessionNotFound}
    connection = await asyncpg.connect(url)
    left = await connection.fetchrow("SELECT (SELECT count(*) FROM threads), (SELECT count(*) FROM messages)")
    await connection.close()
    assert left is not None
    assert tuple(left) == (0, 0)


@pytest.mark.parametrize("how", ["erase", "delete", "sweep", "replace"])
async def test_a_long_thread_is_removed_in_batches(how: str, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement removes more than a batch; all rows are removed, other threads are kept, and the count is exact."""
    monkeypatch.setattr("wenmai.stores.postgresql.purging.BATCH_ROWS", 100)
    clock = MovableClock()
    async with open_store(url, clock=clock) as store:
        for session_id in ("session-1", "session-2"):
            await store.documents.put(SCOPE, session(session_id), keep_until=clock() + timedelta(hours=1))
        kept = ThreadKey("session-2", "elder")
        await store.logs.append(SCOPE, kept, said("kept"))
        for persona_id in ("elder", "teacher"):
            await store.logs.append(SCOPE, ThreadKey("session-1", persona_id), said("gone") * 175)
        traces = [trace(f"{number}", session_id=f"session-{1 + number // 150}") for number in range(151)]
        await asyncio.gather(*(store.documents.put(SCOPE, each) for each in traces))
        connection = await asyncpg.connect(url)
        await connection.execute(_NOTE_REMOVALS)
        match how:
            case "erase":
                assert await store.logs.erase(SCOPE, "session-1") == 700
            case "delete":
                assert await store.documents.delete(SCOPE, Session, "session-1")
            case _:
                await store.documents.put(SCOPE, session("session-2"))
                clock.advance(timedelta(hours=2))
                if how == "sweep":
                    assert await store.documents.sweep() == 1
                else:
                    await store.documents.put(SCOPE, session("session-1"), expected=0)
        removals = await connection.fetch("SELECT name, sum(removed), max(removed) FROM removals GROUP BY 1 ORDER BY 1")
        assert {name: removed for name, removed, _ in removals} == (
            {"messages": 700} if how == "erase" else {"messages": 700, "traces": 150}
        )
        assert all(50 <= most <= 100 for _, _, most in removals)
        for table in ("purged_threads", "purged_sessions"):
            assert await connection.fetchval(f"SELECT count(*) FROM {table}") == 0  # noqa: S608 — our own name
        await connection.close()
        assert len(await store.logs.read(SCOPE, kept)) == 2
        assert await store.logs.read(SCOPE, ThreadKey("session-1", "elder")) == []
        assert await store.documents.get(SCOPE, TraceRecord, "150") is not None


async def test_the_purge_covers_every_bound_record_type(url: str) -> None:
    """After a session delete none is left of any type."""
    async with opened(url) as store:
        stored = await store.documents.get(SCOPE, Session, "session-1")
        assert stored is not None
        bound = {type(record): record for record in bound_records(stored.record)}
        assert bound.keys() == {record for record in RECORDS if record.spec.bound_to}
        for record in bound.values():
            await store.documents.put(SCOPE, record)
        await store.documents.delete(SCOPE, Session, "session-1")
    connection = await asyncpg.connect(url)
    for of in bound:
        assert await connection.fetchval(f"SELECT count(*) FROM {of.spec.collection}") == 0  # noqa: S608 — our own name
    await connection.close()


async def test_two_purges_do_not_deadlock(url: str) -> None:
    """Purges have no lock order: a running one waits for no other, whatever is deleted meanwhile."""
    async with opened(url):
        one, other = [await asyncpg.connect(url) for _ in range(2)]
        pending = "INSERT INTO purged_sessions (incarnation) VALUES ($1)"
        await other.execute(pending, "later")
        begun = one.transaction()
        await begun.start()
        await one.fetchval("SELECT purge_unreachable(1000, ARRAY[]::text[])")
        await other.execute(pending, "earlier")
        second = asyncio.create_task(other.fetchval("SELECT purge_unreachable(1000, ARRAY[]::text[])"))
        await asyncio.sleep(0.1)
        assert await one.fetchval("SELECT purge_unreachable(1000, ARRAY[]::text[])") is False
        await begun.commit()
        assert await second is False
        for connection in (one, other):
            await connection.close()


async def test_a_bound_record_is_written_before_a_session_delete_or_refused(url: str) -> None:
    """Puts while the session is deleted and recreated leave no record without a session."""
    async with opened(url) as store, open_store(url, clock=system_clock) as another:
        for number in range(15):
            outcomes = await asyncio.gather(
                *(store.documents.put(SCOPE, trace(f"{number}-{n}", session_id="session-1")) for n in range(8)),
                another.documents.delete(SCOPE, Session, "session-1"),
                *(another.documents.put(SCOPE, Preferences(session_id="session-1")) for _ in range(3)),
                return_exceptions=True,
            )
            assert {type(each) for each in outcomes if isinstance(each, BaseException)} <= {SessionNotFound}
            await store.documents.put(SCOPE, session())
            assert (await store.documents.put(SCOPE, Preferences(session_id="session-1"), expected=0)).version == 1
    connection = await asyncpg.connect(url)
    left = await connection.fetchrow("SELECT (SELECT count(*) FROM traces), (SELECT count(*) FROM preferences)")
    await connection.close()
    assert left is not None
    assert tuple(left) == (0, 1)


async def test_nul_round_trips(url: str) -> None:
    """PostgreSQL refuses NUL in texts; records, messages and entries still keep it, and the escape character."""
    odd = "a\0b\U0010ffff0\U0010ffff"
    async with opened(url) as store:
        record = Session(
            session_id=f"odd{odd[3:]}",
            expires_at=system_clock() + timedelta(days=1),
            lifetime_seconds=60,
            title=odd,
            metadata={odd: [odd]},
        )
        await store.documents.put(SCOPE, record)
        got = await store.documents.get(SCOPE, Session, record.session_id)
        assert got is not None
        assert without_incarnation(got.record) == record
        message = NewMessage(role="user", content=odd, name=odd, metadata={odd: odd}, tool_calls=[{"x": odd}])
        appended = await store.logs.append(SCOPE, THREAD, [message], tail=1)
        assert appended.tail == appended.messages == await store.logs.read(SCOPE, THREAD)
        assert (appended.tail[0].content, appended.tail[0].metadata) == (odd, {odd: odd})
        entry = SearchEntry(id=odd[3:], text="孝", fields={"f": odd, odd[3:]: [odd, "a\x01b"]})
        await store.search.index(SCOPE, "c", [entry, SearchEntry(id="other", text="孝", fields={"f": "a"})])
        for where in ({"f": odd}, {odd[3:]: "a\x01b"}, {"f": Range(low="a\0", high="a\x01")}):
            [[hit]] = await store.search.query(SCOPE, "c", [SearchQuery(text="孝", where=where)])
            assert (hit.id, hit.fields) == (entry.id, entry.fields)
        [[hit]] = await store.search.query(SCOPE, "c", [SearchQuery(text="孝", ids=[odd[3:]])])
        assert hit.id == entry.id


async def test_long_names_and_values_fit_the_indexes(url: str) -> None:
    """Keys of 512 rare characters, long filters and endless words are stored and found."""
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 512)))
    word = "".join(chr(97 + n * n % 26) for n in range(5_000))
    async with opened(url) as store:
        await store.documents.put(SCOPE, session(rare))
        assert await store.documents.get(SCOPE, Session, rare) is not None
        appended = await store.logs.append(
            SCOPE, ThreadKey(rare, rare), [NewMessage(role="user", content="x", id=rare)]
        )
        assert appended.messages[0].id == rare
        entries = [
            SearchEntry(id=rare, text=word, fields={"ref": rare * 9}),
            SearchEntry(id="other", text=word + "b", fields={"ref": rare * 9 + "x"}),
        ]
        await store.search.index(SCOPE, rare, entries)
        both = SearchQuery(text=f"{word} {word}b", where={"ref": rare * 9})
        found = await store.search.query(SCOPE, rare, [SearchQuery(text=word), both])
        assert [[hit.id for hit in hits] for hits in found] == [[rare], [rare]]


async def test_unstorable_values_are_invalid_input(url: str) -> None:
    """Names, numbers and vectors beyond the database's limits are refused, and the store keeps working."""
    rare = "".join(map(chr, range(0x4E00, 0x4E00 + 512)))
    async with opened(url) as store:
        with pytest.raises(InvalidInput):
            await store.documents.put(Scope(rare, rare, rare), session(rare))
        with pytest.raises(InvalidInput):
            await store.logs.append(SCOPE, THREAD, [NewMessage(role="user", content="x", tokens=2**70)])
        with pytest.raises(InvalidInput):
            await store.search.index(SCOPE, "c", [SearchEntry(id="a", text="x", vector=[float("nan")])])
        assert (await store.logs.append(SCOPE, THREAD, said("x"))).messages[0].seq == 1


async def test_a_zero_vector_has_similarity_0(url: str) -> None:
    """The cosine with a zero vector is 0, not undefined."""
    async with opened(url) as store:
        await store.search.index(SCOPE, "c", [SearchEntry(id="a", text="x", vector=[0.0, 0.0])])
        [[hit]] = await store.search.query(SCOPE, "c", [SearchQuery(vector=[1.0, 0.0])])
    assert hit.similarity == 0


async def test_a_closed_store_refuses_work(url: str) -> None:
    """No call is accepted."""
    async with opened(url) as store:
        kept = store
    with pytest.raises(StoreUnavailable, match="closed"):
        await kept.ping()


def test_the_sql_of_the_revisions_is_shipped() -> None:
    """The SQL files are beside the modules that run them."""
    folder = Path(__file__).parents[2] / "src/wenmai/stores/sql/migrations/versions"
    assert {path.name for path in folder.glob("*.sql")} == {
        "r0001_documents.sql",
        "r0001_logs.sql",
        "r0001_search.sql",
        "r0002_listing.sql",
        "r0002_slide.sql",
        "r0002_usage.sql",
        "r0003_appends.sql",
        "r0003_incarnations.sql",
        "r0003_purged.sql",
        "r0004_purge.sql",
        "r0005_search.sql",
        "r0006_derived.sql",
        "r0013_blocks.sql",
    }
