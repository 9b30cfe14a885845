"""Random histories: sessions of a few names are opened, used, deleted and recreated by several users and processes.

A failure names the seed of its history; ``HISTORY_SEED=…`` in the environment repeats the random choices.
"""

import os
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from history_checker import violations
from history_run import Run, history_of, model_of

from fault_proxy import fault_proxy
from postgres_server import PostgresServer
from redis_server import RedisServer
from support import CACHED, REDIS_TIMEOUTS, settings_of
from wenmai.stores.opening import open_store

pytestmark = pytest.mark.xdist_group("services")

STORES = ("sqlite", "postgresql", "redis", CACHED)
LONG_SECONDS = 150.0
"""Duration of the soak test, per store."""

SECONDS = (3.0, 8.0)
"""Durations of its histories."""


def new_seed() -> int:
    """A new one in each run, unless one is to be repeated."""
    return int(os.environ.get("HISTORY_SEED") or random.randrange(10**9))  # noqa: S311


@asynccontextmanager
async def cut_off(direct: dict[str, str], request: pytest.FixtureRequest) -> AsyncIterator[Run]:
    """A history with connections to the servers through proxies."""
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    redis: RedisServer = request.getfixturevalue("redis_server")
    async with (
        fault_proxy(next(postgres.folder.glob(".s.PGSQL.*[0-9]"))) as to_postgres,
        fault_proxy(redis.port) as to_redis,
    ):
        database = urlsplit(direct["store"]).path[1:]
        throughs = {
            "postgresql": f"postgresql://postgres@127.0.0.1:{to_postgres.port}/{database}"
            "?connect_timeout=5&statement_timeout=5000",
            "redis": f"redis://127.0.0.1:{to_redis.port}/0?{REDIS_TIMEOUTS}",
        }
        store = {name: throughs[urlsplit(url).scheme] for name, url in direct.items()}
        proxies = [to_postgres] * ("postgresql" in direct["store"]) + [to_redis] * ("redis" in str(direct))
        yield Run(seed=0, folder=Path(), store=store, direct=direct, proxies=proxies)


@asynccontextmanager
async def run_at(direct: dict[str, str], request: pytest.FixtureRequest, *, cuts: bool) -> AsyncIterator[Run]:
    """A history over the store at ``direct``, with cut connections if it has connections."""
    if not cuts or direct["store"].startswith("sqlite"):
        yield Run(seed=0, folder=Path(), store=direct, direct=direct)
        return
    async with cut_off(direct, request) as run:
        yield run


async def check(run: Run) -> int:
    """Run a history without violations; returns the number of events."""
    run.folder.mkdir()
    events = await history_of(run)
    found = violations(model_of(run, events))
    assert not found, "\n".join([f"HISTORY_SEED={run.seed}, events in {run.folder}", *found])
    return len(events)


async def settings_at(store: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of an empty store with its tables."""
    settings = settings_of(store, request)
    async with open_store(settings["store"]):
        return settings


@pytest.mark.parametrize("store", STORES)
async def test_a_random_history_has_no_violations(store: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Two processes with four actors each, one of them killed; a few seconds."""
    seed = new_seed()
    direct = await settings_at(store, request)
    async with run_at(direct, request, cuts=seed % 2 == 0) as run:
        await check(run.but(seed=seed, folder=tmp_path / str(seed)))


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("store", STORES)
async def test_many_random_histories_have_no_violations(
    store: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Three processes, many kills, another history every few seconds; ten minutes over all stores."""
    until, first, events = time.monotonic() + LONG_SECONDS, new_seed(), 0
    for seed in range(first, first + 10**6):
        direct = await settings_at(store, request)
        async with run_at(direct, request, cuts=seed % 2 == 0) as run:
            history = run.but(
                seed=seed,
                folder=tmp_path / str(seed),
                processes=3,
                seconds=SECONDS[seed // 2 % 2],
                kills=100,
            )
            events += await check(history)
        if time.monotonic() > until:
            break
    print(f"{seed - first + 1} histories, {events} events")  # noqa: T201 — of the long form
