"""What is past its retention is removed, by kind and tenant, on each store; on Redis by the server itself too."""

from datetime import timedelta
from pathlib import Path
from shutil import copytree

import pytest
from redis import Redis

from redis_server import RedisServer
from support import engine_at
from wenmai import MemoryPolicy, Scope
from wenmai.chat.trace import TraceLedger
from wenmai.clock import MovableClock
from wenmai.config.sources import profile_path
from wenmai.errors import InvalidInput, TraceNotFound
from wenmai.memory.library import Memory, open_memory
from wenmai.memory.retention import Retention, RetentionPolicy
from wenmai.stores.opening import open_store

DAY = timedelta(days=1)
LIFETIME = DAY
ACME, OTHER = Scope("acme", "site", "u"), Scope("other", "site", "u")
POLICY = MemoryPolicy(
    session_lifetime=LIFETIME,
    retention=RetentionPolicy(
        default=Retention.of_days(sessions=90, traces=14, episodes=30),
        tenants={"acme": Retention.of_days(sessions=10, traces=3)},
    ),
)
SAID = [{"role": "user", "content": "I live in Leeds."}]


async def sessions_of(memory: Memory, scope: Scope) -> list[str]:
    """The ids of the user's sessions."""
    return sorted(stored.record.session_id for stored in (await memory.sessions.list(scope)).items)


@pytest.mark.each_store
async def test_ended_sessions_are_removed_after_the_retention_of_their_tenant(store_settings: dict[str, str]) -> None:
    """With their messages, from the end of the session on; one that is used is kept, as are those of other tenants."""
    clock = MovableClock()
    async with open_memory(
        store_settings["store"], hot=store_settings.get("hot", ""), policy=POLICY, clock=clock
    ) as memory:
        for scope in (ACME, OTHER):
            for session_id in ("old", "used", "empty"):
                session = await memory.session(f"{session_id}-{scope.tenant_id}", scope=scope)
                if session_id != "empty":
                    await session.append(SAID)
        clock.advance(LIFETIME - timedelta(hours=1))
        for scope in (ACME, OTHER):
            await (await memory.session(f"used-{scope.tenant_id}", scope=scope)).append(SAID)
        clock.advance(timedelta(hours=1) + 10 * DAY - timedelta(seconds=1))
        assert await memory.retention.run() == 0
        clock.advance(timedelta(seconds=1))
        assert await memory.retention.run() == 2
        assert await sessions_of(memory, ACME) == ["used-acme"]
        assert await sessions_of(memory, OTHER) == ["empty-other", "old-other", "used-other"]
        clock.advance(80 * DAY)
        assert await memory.retention.run() == 3
        assert await sessions_of(memory, OTHER) == ["used-other"]
        assert (await memory.sessions.get(OTHER, "used-other")).record.session_id == "used-other"
        clock.advance(DAY)
        assert await memory.retention.run() == 1
        assert await memory.retention.run() == 0


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
async def test_a_message_past_its_retention_is_not_recalled_any_more(url: str, tmp_path: Path) -> None:
    """It stays in the transcript for as long as its session; newer ones are found."""
    clock = MovableClock()
    url = f"sqlite:///{tmp_path}/wenmai.db" if url == "sqlite" else url
    policy = MemoryPolicy(retention=RetentionPolicy(default=Retention.of_days(episodes=5)))
    async with open_memory(url, policy=policy, clock=clock) as memory:
        session = await memory.session("s", scope=OTHER)
        for text in ("I live in Leeds.", "I live in York."):
            await session.append([{"role": "user", "content": text}])
            clock.advance(3 * DAY)
        await memory.derived.catch_up(10)
        assert len(await session.recall("Where do I live?", unit="message")) == 2
        assert await memory.retention.run() == 0
        [item] = await session.recall("Where do I live?", unit="message")
        assert "York" in item.text
        assert len(await session.messages()) == 2


async def test_traces_are_kept_for_the_retention_of_their_tenant() -> None:
    """In the store itself, so that they are absent at once."""
    clock = MovableClock()
    async with open_store("memory://", clock=clock) as store:
        assert store.documents is not None
        ledger = TraceLedger(store.documents, clock, retention=POLICY.retention)
        for scope in (ACME, OTHER):
            await ledger.reserve(scope, "t")
        clock.advance(3 * DAY)
        with pytest.raises(TraceNotFound):
            await ledger.get(ACME, "t")
        clock.advance(10 * DAY)
        assert (await ledger.get(OTHER, "t")).record.trace_id == "t"
        clock.advance(DAY)
        with pytest.raises(TraceNotFound):
            await ledger.get(OTHER, "t")


@pytest.mark.xdist_group("redis")
async def test_on_redis_the_keys_of_a_session_expire_with_its_retention(redis_server: RedisServer) -> None:
    """So that they go even if no process runs."""
    with Redis(port=redis_server.port) as client:
        client.flushall()
        policy = MemoryPolicy(session_lifetime=LIFETIME)
        async with open_memory(f"{redis_server.url}?kept_days=3", policy=policy) as memory:
            session = await memory.session("s", scope=OTHER)
            await session.append(SAID)
            await session.prefer(tone="casual")
        left = [client.pttl(key) for kind in ("doc", "session") for key in client.scan_iter(f"*:{kind}:*")]
    hours = [milliseconds / 3_600_000 for milliseconds in left]
    assert len(hours) >= 5, "record, thread, numbers, preferences, watermarks"
    assert all(4 * 24 < each <= 4 * 24 + 1 + 48 for each in hours), hours


async def test_a_profile_names_the_retention_of_tenants(tmp_path: Path) -> None:
    """Kinds that it does not name are those of the settings; sessions are not kept longer than there."""
    shipped = Path(profile_path("npc"))
    copytree(shipped.parent, tmp_path / "profiles")
    file = tmp_path / "profiles" / shipped.name
    file.write_text(
        f"{file.read_text(encoding='utf-8')}\nretention:\n  acme: {{session_days: 10, trace_days: 3}}\n",
        encoding="utf-8",
    )
    settings = {"profile": str(file), "episode_retention_days": 7}
    async with engine_at("memory://", **settings) as engine:
        policy = engine.memory.policy.retention
        assert policy.of("acme") == Retention.of_days(sessions=10, traces=3, episodes=7)
        assert policy.of("other") == Retention.of_days(traces=30, episodes=7)
    with pytest.raises(InvalidInput, match=r"retention\.acme\.session_days"):
        async with engine_at("memory://", **settings, session_retention_days=9):
            pass


@pytest.mark.parametrize("kind", ["session", "trace", "episode"])
async def test_a_retention_beyond_a_century_stops_the_start(kind: str) -> None:
    """Its end could not be calculated, and the sweep would fail each time, for all tenants."""
    with pytest.raises(InvalidInput, match=f"{kind}_retention_days"):
        async with engine_at("memory://", **{f"{kind}_retention_days": 5_000_000}):
            pass
