"""Every shipped backend against every case of the conformance suite."""

from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple, get_args

import pytest

from opensearch_server import OpenSearchServer
from redis_server import RedisServer
from wenmai.clock import Clock, system_clock
from wenmai.stores.cache import open_cache
from wenmai.stores.conformance import CASES, Case, run_case
from wenmai.stores.conformance.harness import OpenStore
from wenmai.stores.contracts import Capability, Store
from wenmai.stores.encryption.settings import Encryption, new_master_key
from wenmai.stores.opening import open_store, open_stores


@asynccontextmanager
async def open_cached(url: str, *, clock: Clock) -> AsyncIterator[Store]:
    """The store of the first of two URLs, with the Redis cache of the second in front."""
    durable, hot = url.split()
    async with open_stores(durable, hot, clock=clock) as (store, _):
        yield store


@asynccontextmanager
async def open_screened(url: str, *, clock: Clock) -> AsyncIterator[Store]:
    """The store as the service opens it: what users say is redacted."""
    async with open_stores(url, clock=clock) as (store, _):
        yield store


ENCRYPTION = Encryption(master_keys=new_master_key("k1"), vectors=True)


@asynccontextmanager
async def open_encrypted(url: str, *, clock: Clock) -> AsyncIterator[Store]:
    """The store with encryption; the contract is the same."""
    async with open_stores(url, clock=clock, policy="encrypt", encryption=ENCRYPTION) as (store, _):
        yield store


class Backend(NamedTuple):
    """A backend, the URL of one for the test alone, what it offers, and the cases that take long on it."""

    id: str
    url: Callable[[pytest.FixtureRequest], str]
    marks: tuple[pytest.MarkDecorator, ...] = ()
    opener: OpenStore = open_store
    offers: Collection[Capability] = get_args(Capability)
    durable: bool = True
    long: Collection[str] = ()


def folder_of(request: pytest.FixtureRequest) -> Path:
    """A folder for the test alone."""
    folder: Path = request.getfixturevalue("tmp_path")
    return folder


def redis_of(request: pytest.FixtureRequest) -> str:
    """The running Redis server, with timeouts for a busy machine."""
    server: RedisServer = request.getfixturevalue("redis_server")
    return f"{server.url}?connect_timeout=10&command_timeout=10"


def cluster_of(request: pytest.FixtureRequest) -> str:
    """A cluster through the first of its nodes, with a prefix that keeps all keys together."""
    servers: list[RedisServer] = request.getfixturevalue("redis_cluster")
    return f"{servers[0].url}?prefix={{wenmai}}&connect_timeout=10&command_timeout=10"


def postgres_of(request: pytest.FixtureRequest) -> str:
    """A database of the running PostgreSQL server, the same for all cases."""
    url: str = request.getfixturevalue("conformance_database")
    return url


def cached_of(request: pytest.FixtureRequest) -> str:
    """The database, with the Redis server in front of it under a separate key prefix."""
    return f"{postgres_of(request)} {redis_of(request)}&prefix=hot"


def milvus_of(request: pytest.FixtureRequest) -> str:
    """A Milvus file, the same for all cases."""
    url: str = request.getfixturevalue("conformance_milvus")
    return url


DOCUMENTS: tuple[Capability, ...] = ("documents", "logs")
SEARCH: tuple[Capability, ...] = ("search",)


def opensearch_of(request: pytest.FixtureRequest) -> str:
    """The running OpenSearch node, with the same indices for all cases, and a timeout for a busy machine."""
    server: OpenSearchServer = request.getfixturevalue("opensearch_server")
    return f"{server.url('conformance')}?timeout=30"


BACKENDS = (
    Backend("memory", lambda _: "memory://", durable=False),
    Backend("sqlite", lambda request: f"sqlite:///{folder_of(request)}/wenmai.db"),
    Backend("encrypted", lambda request: f"sqlite:///{folder_of(request)}/wenmai.db", opener=open_encrypted),
    Backend("postgresql", postgres_of, (pytest.mark.xdist_group("postgresql"),)),
    Backend("redis", redis_of, (pytest.mark.xdist_group("redis"),), offers=DOCUMENTS),
    Backend(
        "milvus",
        milvus_of,
        (pytest.mark.xdist_group("milvus"),),
        offers=SEARCH,
        long=(
            "any_text_is_an_entry_or_collection",
            "concurrent_indexing_loses_nothing",
            "filters_at_the_bounds_are_accepted",
            "separators_in_collections_do_not_collide",
        ),
    ),
    Backend(
        "opensearch",
        opensearch_of,
        (pytest.mark.xdist_group("opensearch"),),
        long=(
            "any_text_is_an_entry_or_collection",
            "any_text_is_an_id",
            "any_text_names_an_owner",
            "separators_in_collections_do_not_collide",
            "separators_in_scopes_do_not_collide",
            "separators_in_thread_names_do_not_collide",
        ),
    ),
    Backend("cached", cached_of, (pytest.mark.xdist_group("redis"),), open_cached, offers=DOCUMENTS),
    Backend("screened", lambda _: "memory://", opener=open_screened, offers=SEARCH, durable=False),
    Backend(
        "redis-cluster",
        cluster_of,
        (pytest.mark.xdist_group("redis"), pytest.mark.soak),
        offers=DOCUMENTS,
    ),
)


def marks_of(backend: Backend, case: Case) -> tuple[pytest.MarkDecorator, ...]:
    """The marks of the backend, and that of the long forms."""
    return (*backend.marks, pytest.mark.soak) if case.name in backend.long else backend.marks


@pytest.mark.xdist_group("redis")
async def test_the_cache_leaves_search_to_the_store(request: pytest.FixtureRequest) -> None:
    """So that its cases need not run again behind the cache."""
    async with open_store("memory://") as store, open_cache(store, redis_of(request), clock=system_clock) as cached:
        assert cached.search is store.search


@pytest.mark.parametrize(
    ("backend", "case"),
    [
        pytest.param(backend, case, id=f"{backend.id}-{case.capability}-{case.name}", marks=marks_of(backend, case))
        for backend in BACKENDS
        for case in CASES
        if case.capability in backend.offers and (backend.durable or not case.durable)
    ],
)
async def test_backend_meets_the_contract(backend: Backend, case: Case, request: pytest.FixtureRequest) -> None:
    """The backend meets the expectation of the case; every case of what it offers is run."""
    result = await run_case(case, backend.url(request), opener=backend.opener)
    assert result.status == "passed", f"{case.expectation}\n{result.error}"
