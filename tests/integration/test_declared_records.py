"""A record type is declared, and nothing else: it is stored, and goes with its session or thread, on every backend."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

import asyncpg
import pytest
from declared_records import DECLARED, Clue, Note, declared
from redis import Redis

from postgres_server import PostgresServer
from support import CACHED, STORES, URLS, empty_redis
from wenmai.clock import MovableClock
from wenmai.memory.sessions import Sessions, SessionTerms
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs
from wenmai.stores.opening import open_store, open_stores
from wenmai.stores.postgresql.ddl import definitions_of, table_ddl
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.sqlite import query_readonly

pytestmark = pytest.mark.xdist_group("redis")

OWNER = Scope("tenant", "site", "owner")
HOUR = timedelta(hours=1)
CANARY = "the canary of this test"


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with declared():
        yield


class Opened(NamedTuple):
    """An open store, and the URL of the durable one."""

    documents: Documents
    logs: Logs
    clock: MovableClock
    url: str


@pytest.fixture(params=STORES)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[Opened]:
    """An empty store of each backend, opened with the two types declared."""
    clock, hot = MovableClock(datetime.now(UTC)), ""
    if request.param in ("postgresql", CACHED):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.store()
        await _create_tables(url)
        hot = empty_redis(request) if request.param == CACHED else ""
    else:
        url = URLS[request.param](request)
    async with AsyncExitStack() as stack:
        opened, _ = await stack.enter_async_context(open_stores(url, hot, clock=clock))
        assert opened.documents is not None
        assert opened.logs is not None
        yield Opened(opened.documents, opened.logs, clock, url)


async def _create_tables(url: str) -> None:
    """Create the tables of the two types, as a revision would."""
    async with open_store(url):
        pass
    connection = await asyncpg.connect(url)
    for of in DECLARED:
        for statement in table_ddl(of.spec, definitions_of(of)):
            await connection.execute(statement)
    await connection.close()


async def begin(store: Opened) -> Session:
    """Begin a session that ends in an hour, with a note and a clue in each of two threads; returns it."""
    end = store.clock() + HOUR
    session = Session(session_id="s-1", expires_at=end, lifetime_seconds=3600)
    stored = (await store.documents.put(OWNER, session, expected=0, keep_until=end)).record
    await store.documents.put(OWNER, Note(session_id="s-1", text=CANARY))
    for persona_id in ("elder", "teacher"):
        await store.logs.append(OWNER, ThreadKey("s-1", persona_id), [NewMessage(role="user", content="有何线索？")])
        clue = Clue(clue_id=f"clue-{persona_id}", session_id="s-1", persona_id=persona_id, text=CANARY, seen=["井"])
        await store.documents.put(OWNER, clue)
    return stored


async def present(store: Opened) -> list[str]:
    """The keys of the notes and clues that are present, by each way of reading."""
    found: list[str] = []
    for of, keys in ((Note, ["s-1"]), (Clue, ["clue-elder", "clue-teacher"])):
        got = [key for key in keys if await store.documents.get(OWNER, of, key)]
        listed = [stored.record.key for stored in (await store.documents.list(OWNER, of)).items]
        assert sorted(listed) == sorted(await store.documents.get_many(OWNER, of, keys)) == got
        found += got
    return sorted(found)


async def left_in(url: str) -> int:
    """How many notes and clues the store's file, database or server holds, present or not."""
    if url.startswith("memory"):
        return 0
    if url.startswith("redis"):
        with Redis.from_url(url.partition("?")[0]) as client:
            return sum(len(client.keys(f"*:{of.spec.collection}:*")) for of in DECLARED)
    counts = "SELECT (SELECT count(*) FROM notes) + (SELECT count(*) FROM clues)"
    if url.startswith("sqlite"):
        return int((await query_readonly(url, counts))[0][0])
    connection = await asyncpg.connect(url)
    try:
        return int(await connection.fetchval(counts))
    finally:
        await connection.close()


async def test_a_declared_record_is_stored(store: Opened) -> None:
    """Every field is read as written, and the session's incarnation is filled in."""
    session = await begin(store)
    note, clue = await store.documents.get(OWNER, Note, "s-1"), await store.documents.get(OWNER, Clue, "clue-elder")
    assert note is not None
    assert clue is not None
    assert note.record == Note(session_id="s-1", incarnation=session.incarnation, text=CANARY)
    assert (clue.record.text, clue.record.seen, clue.record.incarnation) == (CANARY, ["井"], session.incarnation)
    assert await present(store) == ["clue-elder", "clue-teacher", "s-1"]


@pytest.mark.parametrize("how", ["deleted", "swept", "replaced"])
async def test_a_declared_record_goes_with_its_session(
    store: Opened, how: Literal["deleted", "swept", "replaced"]
) -> None:
    """It is absent at once, also for a session that has the id later, and removed from the store."""
    await begin(store)
    if how == "deleted":
        assert await store.documents.delete(OWNER, Session, "s-1")
    else:
        store.clock.advance(HOUR)
        assert await present(store) == []
    if how == "swept":
        await store.documents.sweep()
    if how != "replaced":
        assert await left_in(store.url) == 0
    later = Session(session_id="s-1", expires_at=store.clock() + HOUR, lifetime_seconds=3600)
    await store.documents.put(OWNER, later, expected=0)
    assert await present(store) == []
    await store.documents.sweep()
    assert await left_in(store.url) == 0


async def test_a_record_bound_to_a_thread_goes_with_it(store: Opened) -> None:
    """Erasing a persona's thread removes the clues of that thread alone."""
    await begin(store)
    sessions = Sessions(store.documents, store.logs, store.clock, terms=SessionTerms(HOUR))
    assert await sessions.delete_thread(OWNER, "s-1", "elder") == 1
    assert await present(store) == ["clue-teacher", "s-1"]
