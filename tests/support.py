"""Helpers for tests of several folders: the engine over any store, empty for each test."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from redis import Redis

from postgres_server import PostgresServer
from redis_server import RedisServer
from wenmai.clock import Clock
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.stores import inprocess
from wenmai.stores.private import PrivateStore

REDIS_TIMEOUTS = "command_timeout=10&connect_timeout=10"
"""Timeouts of a Redis URL on a machine that is busy with other tests."""


def sqlite_file(request: pytest.FixtureRequest) -> str:
    """The URL of a file that does not exist yet."""
    folder: Path = request.getfixturevalue("tmp_path")
    return f"sqlite:///{folder}/wenmai.db"


def empty_database(request: pytest.FixtureRequest) -> str:
    """The URL of the database that all tests of this process share, with empty tables."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url: str = request.getfixturevalue("engine_database")
    server.empty(url)
    return url


@cache
def _sampled_file() -> bytes:
    async def open_once(file: Path) -> None:
        async with engine_at(f"sqlite:///{file}"):
            pass

    with TemporaryDirectory() as folder:
        file = Path(folder) / "wenmai.db"
        asyncio.run(open_once(file))
        assert list(Path(folder).iterdir()) == [file], "the log is not empty"
        return file.read_bytes()


def make_sampled_file(file: Path) -> None:
    """Make a SQLite file with nothing but the sample evidence that an engine ingests at first, unless it exists.

    Call it where no event loop runs.
    """
    if not file.exists():
        file.write_bytes(_sampled_file())


def sampled_database(request: pytest.FixtureRequest) -> str:
    """The URL of a database with nothing but the sample evidence that an engine ingests when it is opened first."""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    url = server.copy(request.getfixturevalue("sampled_template"))
    request.addfinalizer(partial(server.drop, url))
    return url


def empty_redis(request: pytest.FixtureRequest) -> str:
    """The URL of the Redis server, emptied."""
    server: RedisServer = request.getfixturevalue("redis_server")
    with Redis(port=server.port) as client:
        client.flushall()
    return f"{server.url}?{REDIS_TIMEOUTS}"


@cache
def _sampled_keys(url: str) -> list[tuple[bytes, bytes]]:
    async def open_once() -> None:
        async with engine_at(url):
            pass

    asyncio.run(open_once())
    with Redis.from_url(url.partition("?")[0]) as client:
        return [(key, client.dump(key)) for key in client.scan_iter()]


def sampled_redis(request: pytest.FixtureRequest) -> str:
    """The URL of the Redis server with nothing but the sample evidence. Call it where no event loop runs."""
    keys = _sampled_keys(empty_redis(request))
    url = empty_redis(request)
    with Redis.from_url(url.partition("?")[0]) as client, client.pipeline(transaction=False) as pipeline:
        for key, value in keys:
            pipeline.restore(key, 0, value)
        pipeline.execute()
    return url


URLS: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "memory": lambda _: "memory://",
    "sqlite": sqlite_file,
    "postgresql": empty_database,
    "redis": empty_redis,
}
"""Factories of empty stores for every backend that can run the whole service, by the name in test ids."""

CACHED = "cached"
STORES = (*URLS, CACHED)
"""The same, and PostgreSQL with the process-local and the Redis cache in front of it."""


def settings_of(
    store: str, request: pytest.FixtureRequest, *, database: Callable[[pytest.FixtureRequest], str] = empty_database
) -> dict[str, str]:
    """The settings of an engine for one of STORES, emptied; on PostgreSQL with the contents of ``database``."""
    match store:
        case "postgresql":
            return {"store": database(request)}
        case "cached":
            return {"store": database(request), "hot": empty_redis(request)}
        case _:
            return {"store": URLS[store](request)}


def engine_settings_of(store: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """The same for an engine, with the sample evidence on servers and in files already, which is faster."""
    with ThreadPoolExecutor(1) as threads:  # this one may have an event loop
        if store == "redis":
            return {"store": threads.submit(sampled_redis, request).result()}
        if store == "sqlite":
            folder: Path = request.getfixturevalue("tmp_path")
            threads.submit(make_sampled_file, folder / "wenmai.db").result()
    return settings_of(store, request, database=sampled_database)


OTHER_SAMPLES = frozenset({"profile", "sample_sites", "embedder", "store_policy", "search", "evidence"})
"""Settings with which an engine ingests other sample evidence, or elsewhere."""


@asynccontextmanager
async def engine_at(store: str, **flags: Any) -> AsyncIterator[Engine]:
    """The engine with the npc profile over the store at that URL; keywords are further settings."""
    loaded = load_engine_settings(flags={"store": store, "embedder": "none", **flags}, environment={})
    copies = store == "memory://" and not OTHER_SAMPLES & flags.keys()
    async with AsyncExitStack() as closing:
        with pytest.MonkeyPatch.context() as patched:
            if copies:
                patched.setattr(inprocess, "InProcessStore", SampledStore)
            engine = await closing.enter_async_context(open_engine(loaded.values))
        yield engine


class SampledStore(inprocess.InProcessStore):
    """A store in the process with nothing but the sample evidence, which takes a quarter of the time of ingesting."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        documents, partitions = pickle.loads(_sampled_contents())  # noqa: S301 — our own
        vars(self.documents).update(documents)
        vars(self.search).update(_partitions=partitions)


@cache
def _sampled_contents() -> bytes:
    async def open_once() -> bytes:
        settings = load_engine_settings(flags={"store": "memory://", "embedder": "none"}, environment={}).values
        async with open_engine(settings) as engine:
            assert isinstance(engine.store, PrivateStore)
            store = engine.store._store
            documents = {name: value for name, value in vars(store.documents).items() if name != "_clock"}
            return pickle.dumps((documents, vars(store.search)["_partitions"]))

    with pytest.MonkeyPatch.context() as patched, ThreadPoolExecutor(1) as threads:  # this one has an event loop
        patched.setattr(inprocess, "InProcessStore", SampledStore.__base__)
        return threads.submit(asyncio.run, open_once()).result()
