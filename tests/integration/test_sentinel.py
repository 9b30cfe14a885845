"""Redis behind a sentinel: the primary is looked up again after each failure."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from redis_server import RedisServer, watched_pair
from wenmai.clock import system_clock
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.resilience.breaker import BreakerPolicy
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.cache import open_cache
from wenmai.stores.contracts import Logs
from wenmai.stores.opening import open_store
from wenmai.stores.records import NewMessage, Session
from wenmai.stores.redis.address import parse_address

OWNER = Scope("tenant", "site", "owner")
THREAD = ThreadKey("s-1", "elder")
QUESTION = NewMessage(role="user", content="祠堂在哪里？")


def begun(lifetime: int = 3600) -> Session:
    """A session's record."""
    end = datetime.now(UTC) + timedelta(seconds=lifetime)
    return Session(session_id="s-1", expires_at=end, lifetime_seconds=lifetime)


def test_a_url_names_sentinels_and_the_service() -> None:
    """Several hosts, their default port, the service, the database and the servers' password."""
    address = parse_address("redis+sentinel://me:p%40ss@one,two:5000/talk/3?prefix=p")
    assert address.sentinels == (("one", 26_379), ("two", 5000))
    assert (address.service, address.database, address.username, address.password) == ("talk", 3, "me", "p@ss")
    assert (address.prefix, address.tls) == ("p", False)
    assert parse_address("rediss+sentinel://one/talk").tls
    for url in (
        "redis+sentinel://one",
        "redis+sentinel:///talk",
        "redis+sentinel://one,,two/talk",
        "redis://one,two/0",
    ):
        with pytest.raises(InvalidInput, match="store"):
            parse_address(url)


async def test_without_a_sentinel_that_answers_the_store_is_unavailable(redis_server: RedisServer) -> None:
    """No server, and a server that is no sentinel: a clear error in bounded time."""
    for url in ("redis+sentinel://127.0.0.1:1/talk", f"redis+sentinel://127.0.0.1:{redis_server.port}/talk"):
        with pytest.raises(StoreUnavailable, match="no sentinel knows the primary"):
            async with asyncio.timeout(5), open_store(url):
                pytest.fail("it opened")


@pytest.mark.soak
@pytest.mark.parametrize("alone", [True, False], ids=["alone", "in front of a file"])
async def test_a_failover_loses_nothing_that_the_durable_store_acknowledged(tmp_path: Path, *, alone: bool) -> None:
    """The primary is killed under load. In front of a file no append fails, and the cache works again with the replica.

    Alone, appends fail until the replica has taken over, and then the thread continues from the replica's data.
    """
    with watched_pair(tmp_path) as (primary, _, sentinel):
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/talk"
        durable_url = url if alone else f"sqlite:///{tmp_path}/a.db"
        async with open_store(durable_url) as durable:
            if alone:
                assert durable.documents is not None
                assert durable.logs is not None
                await durable.documents.put(OWNER, begun(), expected=0)
                await _append_until_it_fails_over(durable.logs, primary, may_fail=True)
                return
            quick = BreakerPolicy(wait_seconds=0.5)
            async with open_cache(durable, url, clock=system_clock, breaker_policy=quick) as cached:
                await cached.documents.put(OWNER, begun(), expected=0)
                acknowledged = await _append_until_it_fails_over(cached.logs, primary, may_fail=False)
                assert durable.logs is not None
                stored = await durable.logs.latest(OWNER, THREAD, 10_000)
                assert [message.seq for message in stored] == list(range(1, acknowledged + 1))
                async with asyncio.timeout(15):
                    while cached.breaker.status.state != "closed":  # noqa: ASYNC110 — the failover sets no event here
                        await asyncio.sleep(0.05)
                assert await cached.logs.latest(OWNER, THREAD, 10) == stored[-10:]


async def _append_until_it_fails_over(logs: Logs, primary: RedisServer, *, may_fail: bool) -> int:
    """Append, kill the primary, and append until appends have succeeded for a while; returns how many did."""
    acknowledged, good, killed = 0, 0, False
    async with asyncio.timeout(30):
        while good < 300:
            if acknowledged == 100 and not killed:
                primary.kill()
                killed, good = True, 0
            try:
                await logs.append(OWNER, THREAD, [QUESTION])
            except StoreUnavailable:
                assert may_fail
                good = 0
                await asyncio.sleep(0.05)
            else:
                acknowledged += 1
                good += killed
                await asyncio.sleep(0.002)
    return acknowledged
