"""Concurrent appends share transactions of PostgreSQL; a failure of one does not affect the others."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from itertools import count

import asyncpg
import pytest

from postgres_server import PostgresServer
from wenmai.clock import MovableClock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound, StoreUnavailable, WenmaiError
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.postgresql import PostgresqlStore, open_store
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.structs import Appended

pytestmark = pytest.mark.xdist_group("postgresql")

SCOPE = Scope()
SESSIONS = 6
UNSTORABLE = "half a pair: \ud800"


@pytest.fixture
async def store(postgres_server: PostgresServer) -> AsyncIterator[PostgresqlStore]:
    """A store with a few sessions that have messages."""
    async with open_store(postgres_server.store(), clock=system_clock) as opened:
        end = system_clock() + timedelta(days=1)
        for number in range(SESSIONS):
            record = Session(session_id=f"s{number}", expires_at=end, lifetime_seconds=86_400)
            await opened.documents.put(SCOPE, record)
            await say(opened, number, "begin")
        yield opened


async def say(store: PostgresqlStore, session: int, text: str) -> Appended:
    """One turn."""
    said = [NewMessage(role="user", content=text), NewMessage(role="assistant", content=f"re {text}")]
    return await store.logs.append(SCOPE, ThreadKey(f"s{session}", "assistant"), said, tail=4)


async def said_in(store: PostgresqlStore, session: int) -> list[str]:
    """The questions of a session, in order."""
    found = await store.logs.read(SCOPE, ThreadKey(f"s{session}", "assistant"))
    assert [message.seq for message in found] == [*range(1, len(found) + 1)]
    return [message.content for message in found if message.role == "user"]


async def test_concurrent_appends_each_get_their_own_result(store: PostgresqlStore) -> None:
    """Sixty at once over six sessions: each gets its numbers and its thread's tail."""
    texts = [f"turn {number}" for number in range(60)]
    done = await asyncio.gather(*(say(store, number % SESSIONS, text) for number, text in enumerate(texts)))
    for text, appended in zip(texts, done, strict=True):
        assert [message.content for message in appended.messages] == [text, f"re {text}"]
        assert appended.tail[-2:] == appended.messages
        assert [message.seq for message in appended.tail] == [*range(appended.tail[0].seq, appended.tail[0].seq + 4)]
    for session in range(SESSIONS):
        assert sorted(await said_in(store, session)) == sorted(["begin", *texts[session::SESSIONS]])


async def test_a_failed_append_does_not_affect_the_others(store: PostgresqlStore) -> None:
    """An unstorable text and an absent session are refused; concurrent appends are stored."""
    outcomes = await asyncio.gather(
        *(say(store, number % SESSIONS, f"turn {number}") for number in range(20)),
        say(store, 1, UNSTORABLE),
        say(store, SESSIONS, "to an absent session"),
        *(say(store, number % SESSIONS, f"turn {number}") for number in range(20, 40)),
        return_exceptions=True,
    )
    refused = [outcome for outcome in outcomes if isinstance(outcome, WenmaiError)]
    assert [type(each) for each in refused] == [InvalidInput, SessionNotFound]
    stored = [question for session in range(SESSIONS) for question in await said_in(store, session)]
    assert sorted(stored) == sorted(["begin"] * SESSIONS + [f"turn {number}" for number in range(40)])


async def test_cancelled_appends_do_not_block_others(store: PostgresqlStore) -> None:
    """Cancelled appends are stored completely or not at all, and the others continue."""
    tasks = [asyncio.create_task(say(store, number % SESSIONS, f"turn {number}")) for number in range(40)]
    await asyncio.sleep(0)
    for task in tasks[::4]:
        task.cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    kept = {question for session in range(SESSIONS) for question in await said_in(store, session)}
    assert {f"turn {n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, Appended)} <= kept
    assert (await say(store, 0, "after all")).repeated == 0


async def test_appends_in_two_processes_do_not_deadlock(postgres_server: PostgresServer) -> None:
    """Two stores, the same sessions in opposite order, each append moving the expiry: all succeed."""
    database = postgres_server.store()
    start, seconds = system_clock(), count(step=2)

    def clock() -> datetime:
        return start + timedelta(seconds=next(seconds))

    async with open_store(database, clock=clock) as one, open_store(database, clock=clock) as other:
        end = start + timedelta(days=1)
        for number in range(SESSIONS):
            await one.documents.put(SCOPE, Session(session_id=f"s{number}", expires_at=end, lifetime_seconds=86_400))
            await say(one, number, "begin")
        for turn in range(12):
            texts = [(number, f"turn {turn}") for number in range(SESSIONS)] * 8
            await asyncio.gather(
                *(say(one, number, text) for number, text in texts),
                *(say(other, number, text) for number, text in reversed(texts)),
            )
        for number in range(SESSIONS):
            assert len(await said_in(one, number)) == 193


async def test_an_append_that_began_before_a_truncate_continues_after_it(postgres_server: PostgresServer) -> None:
    """Its snapshot has the removed messages, and it is blocked until the truncate is done; its number leaves no gap."""
    database, clock, thread = postgres_server.store(), MovableClock(), ThreadKey("s", "assistant")
    said = [NewMessage(role="user", content="so")]
    async with open_store(database, clock=clock) as store:
        end = clock() + timedelta(hours=1)
        await store.documents.put(SCOPE, Session(session_id="s", expires_at=end, lifetime_seconds=3_600))
        await store.logs.append(SCOPE, thread, said * 6)
        connection = await asyncpg.connect(database)
        await connection.execute(
            "DROP FUNCTION slide_session; "
            "CREATE FUNCTION slide_session(bigint, timestamptz, interval, timestamptz) RETURNS boolean "
            "LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_advisory_xact_lock(7); RETURN TRUE; END $$"
        )
        await connection.execute("SELECT pg_advisory_lock(7)")
        clock.advance(timedelta(minutes=1))
        late = asyncio.create_task(store.logs.append(SCOPE, thread, said))
        waits = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 AND NOT granted)"
        while not await connection.fetchval(waits):  # noqa: ASYNC110 — only the server knows
            await asyncio.sleep(0.01)
        assert await store.logs.truncate(SCOPE, thread, 3) == 3
        await connection.close()
        assert [message.seq for message in (await late).messages] == [4]
        assert [message.seq for message in await store.logs.read(SCOPE, thread)] == [1, 2, 3, 4]


async def test_appends_race_with_truncates(postgres_server: PostgresServer) -> None:
    """A thread truncated by another process during appends has no gap, and no generated id is reused."""
    database, thread = postgres_server.store(), ThreadKey("s", "assistant")
    async with open_store(database, clock=system_clock) as one, open_store(database, clock=system_clock) as other:
        end = system_clock() + timedelta(days=1)
        await one.documents.put(SCOPE, Session(session_id="s", expires_at=end, lifetime_seconds=86_400))
        made: dict[str, str] = {}
        cut = 0
        for turn in range(15):
            said = [[NewMessage(role="user", content=f"{turn}-{number}")] * 2 for number in range(12)]
            cuts = [asyncio.ensure_future(other.logs.truncate(SCOPE, thread, last)) for last in (3, 5)]
            done = await asyncio.gather(*(one.logs.append(SCOPE, thread, each, tail=4) for each in said))
            cut += sum(await asyncio.gather(*cuts))
            kept = await other.logs.read(SCOPE, thread)
            assert [message.seq for message in kept] == [*range(1, len(kept) + 1)]
            stored = [message for each in done for message in each.messages]
            assert not made.keys() & {message.id for message in stored}
            made |= {message.id: message.content for message in stored}
            assert all(made[message.id] == message.content for message in kept)
            assert len(kept) == len(made) - cut


async def test_when_the_server_stops_all_appends_end(store: PostgresqlStore, postgres_server: PostgresServer) -> None:
    """Queued ones too; afterwards the store works as before."""
    waiting = [asyncio.create_task(say(store, number % SESSIONS, f"turn {number}")) for number in range(40)]
    await asyncio.sleep(0)
    postgres_server.stop()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    postgres_server.start()
    assert all(isinstance(outcome, Appended | StoreUnavailable) for outcome in outcomes)
    kept = {question for session in range(SESSIONS) for question in await said_in(store, session)}
    assert {f"turn {n}" for n, outcome in enumerate(outcomes) if isinstance(outcome, Appended)} <= kept
