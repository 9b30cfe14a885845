"""Shared fixtures: the engine over each store, and servers, each started on first use."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zlib import crc32

import pytest

from heap import resume_collections, suspend_collections
from model_server import ModelServer
from opensearch_server import JavaMissingError, OpenSearchServer
from postgres_server import PostgresServer
from redis_server import RedisServer, cluster_of_three
from scratch import scratch_folder
from support import STORES, URLS, engine_at, engine_settings_of, settings_of
from wenmai.engine import Engine

suspend_collections()
os.environ["WENMAI_EMBEDDER"] = "none"  # for programs of the tests; the embedder has tests of its own
# No test calls a server outside: each HTTP client loads one authority in 1 ms, in place of all those known in 20 ms.
os.environ["SSL_CERT_FILE"] = str(Path(__file__).parent / "servers" / "authority.pem")
if scratch := scratch_folder():
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", scratch)

EMBEDDED: tuple[str, ...] = ("memory", "sqlite")
"""The stores that need no server."""


LONGEST_ID = 1_000
"""Characters of a parameter that is its own id."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the stores of a test that asks for one: that all keep the contracts is the conformance suite's business.

    Unit tests run on the embedded stores, tests marked ``each_store`` on all, others on the one in the process and on
    one more, chosen by the test's name.
    """
    for name, stores in (("store_url", tuple(URLS)), ("store_settings", STORES), ("engine_settings", STORES)):
        if name not in metafunc.fixturenames:
            continue
        if "unit" in metafunc.definition.path.parts:
            chosen = EMBEDDED
        elif metafunc.definition.get_closest_marker("each_store"):
            chosen = stores
        else:
            others = stores[1:]
            chosen = ("memory", others[crc32(metafunc.definition.originalname.encode()) % len(others)])
        metafunc.parametrize(name, chosen, indirect=True)


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Short ids for long texts: an id is in the environment of each process that a test starts, which has a limit."""
    return f"{argname}-{len(val)}" if isinstance(val, str | bytes) and len(val) > LONGEST_ID else None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to collect the garbage that tests make.

    Raises:
        pytest.UsageError: xdist does not keep the tests of a server in one process, so that each would start its own.
            It names groups in the ids of tests, which pytest 9.2 does not let it change.
    """
    if session.config.getoption("loadgroup", default=False):
        grouped = [item for item in session.items if item.get_closest_marker("xdist_group")]
        if not all("@" in item.nodeid for item in grouped):
            raise pytest.UsageError("pytest-xdist does not group the tests: use another version of pytest")
    resume_collections()


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, for each backend in turn."""
    return URLS[request.param](request)


@pytest.fixture
def store_settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of an empty store, for each backend in turn and for the cached store."""
    return settings_of(request.param, request)


@pytest.fixture
def engine_settings(request: pytest.FixtureRequest) -> dict[str, str]:
    """The same for an engine with the profile's sample evidence, which may be there already."""
    return engine_settings_of(request.param, request)


@pytest.fixture
async def engine(engine_settings: dict[str, str]) -> AsyncIterator[Engine]:
    """The engine over each store in turn."""
    async with engine_at(**engine_settings) as opened:
        yield opened


@pytest.fixture(scope="session")
def model_process() -> Iterator[ModelServer]:
    """The model server's process, started by :func:`model_server`, stopped at the end of the session."""
    server = ModelServer()
    yield server
    server.stop()


@pytest.fixture
def model_server(model_process: ModelServer) -> ModelServer:
    """A running model server; started again if an earlier test has killed it."""
    model_process.start()
    return model_process


@pytest.fixture(scope="session")
def redis_process() -> Iterator[RedisServer]:
    """The Redis server's process, started by :func:`redis_server`, stopped at the end of the session."""
    server = RedisServer()
    yield server
    server.stop()


@pytest.fixture
def redis_server(redis_process: RedisServer) -> RedisServer:
    """A running Redis server; started again if an earlier test has killed it."""
    redis_process.start()
    return redis_process


@pytest.fixture(scope="session")
def postgres_process() -> Iterator[PostgresServer]:
    """The PostgreSQL server's process, stopped and removed at the end of the session."""
    server = PostgresServer()
    yield server
    server.remove()


@pytest.fixture
def postgres_server(postgres_process: PostgresServer) -> PostgresServer:
    """A running PostgreSQL server; started again if an earlier test has stopped it."""
    postgres_process.start()
    return postgres_process


@pytest.fixture(scope="session")
def conformance_database(postgres_process: PostgresServer) -> str:
    """A database that the cases of the conformance suite share, each in tenants of its own."""
    return postgres_process.database()


@pytest.fixture(scope="session")
def conformance_milvus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Milvus file that the cases of the conformance suite share; it stays open, as opening it takes long."""
    from wenmai.stores.milvus.lite import lite_server  # noqa: PLC0415 — its driver takes a second to import

    file = tmp_path_factory.mktemp("milvus") / "wenmai.db"
    with lite_server(file):
        yield f"milvus:///{file}"


@pytest.fixture(scope="session")
def opensearch_process() -> Iterator[OpenSearchServer]:
    """The OpenSearch node, started by :func:`opensearch_server`, stopped at the end of the session.

    Without Java and Maven, its tests are skipped; in continuous integration, which has them, they fail.
    """
    try:
        server = OpenSearchServer()
    except JavaMissingError as missing:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"NOTHING OF OPENSEARCH IS TESTED: {missing}")
    yield server
    server.remove()


@pytest.fixture
def opensearch_server(opensearch_process: OpenSearchServer) -> OpenSearchServer:
    """A running OpenSearch node; started again if an earlier test has killed it."""
    opensearch_process.start()
    return opensearch_process


@pytest.fixture(scope="session")
def engine_database(postgres_process: PostgresServer) -> str:
    """A database that the tests of engines share, one after the other; each finds it empty."""
    return postgres_process.database()


@pytest.fixture(scope="session")
def sampled_template(postgres_process: PostgresServer) -> str:
    """A database that an engine has opened once, to be copied."""
    url = postgres_process.database()

    async def open_once() -> None:
        async with engine_at(url):
            pass

    with ThreadPoolExecutor(1) as threads:  # this one may have an event loop
        threads.submit(asyncio.run, open_once()).result()
    return url


@pytest.fixture(scope="session")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RedisServer]]:
    """Three Redis servers that are one cluster."""
    with cluster_of_three(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers
