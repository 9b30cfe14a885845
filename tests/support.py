"""What tests of several folders use: the engine over any store, in an empty store for each test."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from postgres_server import PostgresServer
from redis_server import RedisServer
from wenmai.engine import Engine, load_engine_settings, open_engine

PATIENCE = "command_timeout=10&connect_timeout=10"
"""Bounds of a Redis URL on a machine that is busy with other tests."""


def sqlite_file(request: pytest.FixtureRequest) -> str:
    """The URL of a file that is not there yet."""
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/wenmai.db"


def empty_database(request: pytest.FixtureRequest) -> str:
    """The URL of a database that all tests of this process share, with its tables and nothing in them."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("engine_database")
    server.empty(url)
    return url


def empty_redis(request: pytest.FixtureRequest) -> str:
    """The URL of the Redis server, with nothing in it."""
    server: RedisServer = request.getfixturevalue("redis_server")
    with Redis(port=server.port) as client:
        client.flushall()
    return f"{server.url}?{PATIENCE}"


URLS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": sqlite_file,
    "postgresql": empty_database,
    "redis": empty_redis,
}
"""Every store that can carry the whole service, by the name in test ids; makes one that is empty."""

TIERS = "tiers"
STORES = (*URLS, TIERS)
"""The same, and PostgreSQL with the process's memory and Redis in front of it."""


def settings_of(store: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings by which an engine opens one of STORES, emptied."""
    if store == TIERS:
        return {"store": empty_database(request), "hot": empty_redis(request)}
    return {"store": URLS[store](request)}


@asynccontextmanager
async def engine_at(store: str, **flags: Any) -> AsyncIterator[Engine]:
    """The engine with the npc profile over the store at that URL; keywords are settings."""
    loaded = load_engine_settings(flags={"store": store, **flags}, environment={})
    async with open_engine(loaded.values) as engine:
        yield engine
