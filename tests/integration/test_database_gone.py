"""PostgreSQL fails behind the cache: cached sessions are read, nothing is half-written."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
import pytest
from cache_load import OWNER, PERSONA, QUESTION, cached_store, until
from http_service import Service

from fault_proxy import FaultProxy, fault_proxy
from postgres_server import PostgresServer
from redis_server import RedisServer
from support import empty_database, empty_redis
from wenmai.engine import load_engine_settings, open_engine
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.resilience.degradation import collected_degradation
from wenmai.stores.cache.read_through import BACKOFF_SECONDS
from wenmai.stores.opening import open_store

pytestmark = pytest.mark.xdist_group("database gone")

BREAKING = BreakerPolicy(wait_seconds=0.5)
SECONDS = 1
"""Connect timeout and statement timeout."""

LONGEST = 12.0
"""Seconds for one request while PostgreSQL hangs: several connect and statement timeouts, and waits for the server's
reply to a cancelled statement."""

COMPARED = ("conversations", "preferences", "threads", "messages", "traces", "idempotent_turns")
"""Tables that a refused write must not change; leases and counters change anyway."""

Gone = Literal["stopped", "hanging", "hanging like Redis"]


class Stand:
    """The service over PostgreSQL and Redis, each behind a proxy."""

    def __init__(self, service: Service, server: PostgresServer, database: str, *proxies: FaultProxy) -> None:
        self.service = service
        self.client = service.client
        self._server = server
        self._database = database
        self._to_database, self._to_redis = proxies

    async def lose(self, gone: Gone) -> None:
        """Take PostgreSQL down, and Redis too if requested."""
        if gone == "stopped":
            await asyncio.to_thread(self._server.stop)
            return
        await self._to_database.break_with("hang")
        if gone == "hanging like Redis":
            await self._to_redis.break_with("hang")

    async def recover(self) -> None:
        """Bring everything back up."""
        await asyncio.to_thread(self._server.start)
        await self._to_database.heal()
        await self._to_redis.heal()

    async def everything(self) -> str:
        """All rows of the compared tables, read directly from the server."""
        listing = [f"SELECT '{table}', t::text FROM {table} t ORDER BY t::text;" for table in COMPARED]  # noqa: S608
        return await asyncio.to_thread(self._server.sql, f"\\connect {self._database}\n" + "\n".join(listing))

    async def prepare(self, session_id: str) -> None:
        """Create and read a session with two turns, preferences and a title."""
        for query in (QUESTION, "族长是谁？"):
            await self.service.ask(query, session_id=session_id)
        await self.service.engine.memory.derived.catch_up()
        chosen = await self.client.put(f"/api/v1/npc/sessions/{session_id}/preference", json={"tone": "casual"})
        assert chosen.status_code == 200

    async def read(self, session_id: str, client: httpx.AsyncClient | None = None) -> list[httpx.Response]:
        """The session as a user reads it, in every way that cache entries can answer."""
        client, plain, npc = client or self.client, f"/v1/sessions/{session_id}", f"/api/v1/npc/sessions/{session_id}"
        context = {"query": "那么呢？", "npc_id": PERSONA}
        async with asyncio.timeout(LONGEST):
            return await asyncio.gather(
                client.get(npc, params={"npc_id": PERSONA}),
                client.get(npc),
                client.get(plain),
                client.get(f"{plain}/messages"),
                client.get(f"{plain}/messages", params={"npc_id": PERSONA}),
                client.post(f"{plain}/context", json=context),
                client.post(f"{plain}/context", json=context | {"budget_tokens": 4_000}),
            )

    async def write(self, session_id: str) -> list[httpx.Response]:
        """Every kind of write to the session, and a new one."""
        plain, npc = f"/v1/sessions/{session_id}", f"/api/v1/npc/sessions/{session_id}"
        body = {"npc_id": PERSONA, "query": QUESTION, "session_id": session_id}
        messages = {"messages": [{"role": "user", "content": "一"}, {"role": "assistant", "content": "二"}]}
        ways: list[dict[str, Any]] = [
            {"method": "POST", "url": "/api/v1/npc/chat", "json": body},
            {"method": "POST", "url": "/api/v1/npc/chat", "json": body, "headers": {"Idempotency-Key": "again"}},
            {"method": "POST", "url": f"{plain}/messages", "json": messages},
            {"method": "PUT", "url": f"{npc}/preference", "json": {"tone": "formal"}},
            {"method": "PATCH", "url": plain, "json": {"title": "another"}},
            {"method": "POST", "url": "/v1/sessions", "json": {"session_id": "fresh"}},
        ]
        async with asyncio.timeout(LONGEST):
            return await asyncio.gather(*(self.client.request(**way) for way in ways))


@pytest.fixture
async def stand(request: pytest.FixtureRequest, postgres_server: PostgresServer) -> AsyncIterator[Stand]:
    """A running service; servers that a test took down are restarted."""
    direct = empty_database(request)
    database = urlsplit(direct).path[1:]
    async with open_store(direct):
        pass  # creates the tables, for which the timeouts below are too short
    empty_redis(request)
    redis: RedisServer = request.getfixturevalue("redis_server")
    async with (
        fault_proxy(next(postgres_server.folder.glob(".s.PGSQL.*[0-9]"))) as to_database,
        fault_proxy(redis.port) as to_redis,
        service_over(
            f"postgresql://postgres@127.0.0.1:{to_database.port}/{database}"
            f"?connect_timeout={SECONDS}&statement_timeout={SECONDS * 1_000}",
            f"redis://127.0.0.1:{to_redis.port}/0?connect_timeout=0.5&command_timeout=0.7",
        ) as service,
    ):
        stand = Stand(service, postgres_server, database, to_database, to_redis)
        yield stand
        await stand.recover()


@asynccontextmanager
async def service_over(store: str, hot: str) -> AsyncIterator[Service]:
    """The service over these servers, for users of the load's scope."""
    loaded = load_engine_settings(flags={"embedder": "none", "store": store, "hot": hot}, environment={})
    async with open_engine(loaded.values, breaker_policy=BREAKING) as engine:
        await until(lambda: cached_store(engine).breaker.status.state == "closed", 5)
        service = Service(engine)
        service.client = service.client_of(X_User_ID=OWNER.user_id)
        async with service.app.router.lifespan_context(service.app), service.client:
            yield service


def bodies(answers: list[httpx.Response]) -> list[Any]:
    """The bodies, all of them successes, without the session's end, which may lag by a second in a cache entry.

    Nor with what a context lacks without the database, since the searches of recall are not cached.
    """
    assert [answer.status_code for answer in answers] == [200] * len(answers), [answer.text for answer in answers]
    lagging = {"updated_at", "expires_at", "degraded"}
    return [{name: value for name, value in answer.json().items() if name not in lagging} for answer in answers]


@pytest.mark.parametrize("gone", ["stopped", "hanging", "hanging like Redis"])
async def test_without_the_database_cached_sessions_are_read_and_writes_are_refused_whole(
    gone: Gone, stand: Stand
) -> None:
    """Reads return the same bodies, marked degraded; writes get 503 with Retry-After and store nothing.

    Every request ends within a time limit, whatever hangs. After recovery everything works.
    """
    await stand.prepare("cached")
    before, stored = bodies(await stand.read("cached")), await stand.everything()
    await stand.lose(gone)
    try:
        refused = await stand.write("cached")
        assert [answer.status_code for answer in refused] == [503] * len(refused)
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert all("nothing was changed" in answer.json()["detail"] for answer in refused)
        with collected_degradation() as degraded:
            read = await stand.read("cached")
        assert bodies(read) == before
        assert [answer.json()["degraded"] for answer in read[-2:]] == [["recall"], ["recall"]]
        assert "postgresql" in degraded
        unknown = await stand.read("never-cached")
        assert [answer.status_code for answer in unknown] == [503] * len(unknown)
        async with asyncio.timeout(LONGEST):
            ready = await stand.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "down")
    finally:
        await stand.recover()
    assert await stand.everything() == stored
    await until(lambda: cached_store(stand.service.engine).breaker.status.state == "closed", 5)
    assert (await stand.client.get("/readyz")).status_code == 200
    await asyncio.sleep(BACKOFF_SECONDS)
    await stand.read("cached")  # one of these probes the database
    for _ in range(3):  # a busy machine may let one of these reads miss the cache's time limit
        with collected_degradation() as degraded:
            assert bodies(await stand.read("cached")) == before
        if not degraded:
            break
    assert not degraded
    answer = await stand.service.ask(QUESTION, session_id="cached")
    assert (answer["turn_id"], answer["degraded"]) == (3, [])


async def test_without_the_database_another_user_learns_nothing(stand: Stand) -> None:
    """For another user a cached session gives the same bytes as an unknown one; the owner is served."""
    await stand.prepare("cached")
    await stand.read("cached")
    await stand.lose("stopped")
    try:
        for headers in ({"X_User_ID": "stranger"}, {"X_User_ID": OWNER.user_id, "X_Tenant_ID": "other"}):
            async with stand.service.client_of(**headers) as stranger:
                asked = await stand.read("cached", stranger)
                unknown = await stand.read("unknown", stranger)
            assert [answer.status_code for answer in asked] == [503] * len(asked)
            assert [answer.content for answer in asked] == [answer.content for answer in unknown]
        bodies(await stand.read("cached"))
    finally:
        await stand.recover()
