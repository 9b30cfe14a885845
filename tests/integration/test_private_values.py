"""Canaries: private values that users send by every way in are on no disk, in no server and in no log."""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import urlsplit

import pytest
import re2
from http_service import Service, open_service
from redis import Redis

from canaries import Canary, canaries
from opensearch_server import OpenSearchServer
from postgres_server import PostgresServer
from redis_server import RedisServer
from support import sampled_database, settings_of
from wenmai.interchange import import_files
from wenmai.memory.sessions import TITLE_LIMIT
from wenmai.scope import Scope
from wenmai.stores.encryption.settings import new_master_key
from wenmai.text.redact.log_filter import PrivateLogFilter

ROUNDS = 20
CLOCK_STEP = 1.0
"""Seconds by which the time of a file may lag."""

MASTER_KEY = new_master_key("k1")


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Service]:
    """The whole service over a store; at the end all that is derived in the background is there."""
    async with open_service(folder, master_keys=MASTER_KEY, **settings) as service:
        yield service
        await service.engine.memory.derived.catch_up()


async def send(service: Service, given: list[Canary], folder: Path) -> None:
    """Each canary by one of the ways in, then all of them in an import."""
    client = service.client
    await service.create_session(session_id="s1")
    messages = []
    for number, canary in enumerate(given):
        path, body = way_in(number, canary)
        if path:
            answer = await client.post(path, json=body, headers={"Idempotency-Key": f"key-{number}"})
            assert answer.status_code in (200, 201), answer.text
        else:
            messages.append(body)
    for start in range(0, len(messages), 50):
        body = {"messages": messages[start : start + 50]}
        assert (await client.post("/v1/sessions/s1/messages", json=body)).status_code == 201
    chosen = {"interest_tags": [next(each.value for each in given if each.kind == "EMAIL")]}
    assert (await client.put("/api/v1/npc/sessions/s1/preference", json=chosen)).status_code == 200
    lines = [
        {"role": "user", "content": each.text, "session_id": f"i{number % 9}"} for number, each in enumerate(given)
    ]
    file = folder / "import.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (await import_files(service.engine.memory, Scope(), [file])).messages == len(given)
    file.unlink()


def way_in(number: int, canary: Canary) -> tuple[str, Any]:
    """Path and body of the request that sends it; of a message, which is sent with others, no path."""
    text = canary.text
    messages: dict[int, dict[str, Any]] = {
        3: {"role": "user", "content": f"{'话' * 3_990}。{text}"},
        4: {"role": "assistant", "content": f"You said: {text}", "name": short(canary)},
        5: {"role": "user", "content": "x", "metadata": {"deep": [{"said": text}]}},
        6: {"role": "assistant", "content": "", "tool_calls": [called(canary)]},
    }
    match number % 16:
        case 0:
            return "/api/v1/npc/chat", {"npc_id": "ancestor_yan", "query": f"{text} 请问祠堂是什么时候建的？"}
        case 1:
            return "/api/v1/npc/chat", {"npc_id": "ancestor_yan", "query": text, "session_id": "s2"}
        case 2:
            return "/v1/sessions", {"title": short(canary), "metadata": {"note": text}}
        case way:
            return "", messages.get(way % 8, {"role": "user", "content": text})


def short(canary: Canary) -> str:
    """The canary's sentence, or if that is too long for a title the value, which is recognized without it."""
    return canary.text if len(canary.text) <= TITLE_LIMIT else canary.value


def called(canary: Canary) -> dict[str, Any]:
    """A tool call with the canary as a text and as a member."""
    arguments = json.dumps({"text": canary.text, "value": canary.text})
    return {"id": "call-1", "type": "function", "function": {"name": "send", "arguments": arguments}}


def all_bytes(folder: Path, since: float = 0.0) -> bytes:
    """Those of all files that were written since that time, in seconds since the epoch."""
    written = (file for file in folder.rglob("*") if file.is_file() and file.stat().st_mtime >= since)
    return b"".join(file.read_bytes() for file in written)


def left_in(data: bytes, given: list[Canary]) -> list[Canary]:
    """The canaries that the data has, in one pass: a server has several hundred megabytes."""
    anyone = re2.compile("|".join(re2.escape(value) for value in sorted({each.value for each in given})).encode())
    found = {match.group().decode() for match in anyone.finditer(data)}
    return [canary for canary in given if any(canary.value in value for value in found)]


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """A file with everything that is logged, screened as the service's log is."""
    (tmp_path / "log").mkdir()
    handler = logging.FileHandler(tmp_path / "log" / "log.txt")
    handler.addFilter(PrivateLogFilter())
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    logger = logging.getLogger("wenmai")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield tmp_path / "log" / "log.txt"
    logger.removeHandler(handler)
    logger.setLevel(level)
    handler.close()


@pytest.mark.parametrize("policy", ["redact", "encrypt"])
async def test_no_canary_is_in_the_files_or_the_log(tmp_path: Path, log_file: Path, policy: str) -> None:
    """After a chat, messages, an import and more, none is in the database file, its log, or the log of the service."""
    given = canaries(ROUNDS)
    folder = tmp_path / "store"
    folder.mkdir()
    async with opened(folder, store_policy=policy) as service:
        await send(service, given, tmp_path)
        while_open = all_bytes(folder)
        logging.getLogger("wenmai.test").error("failed: %s", given[1].text)
    closed = all_bytes(folder)
    logged = all_bytes(log_file.parent)
    assert left_in(while_open + closed + logged, given) == []
    assert (b"[REDACTED_PHONE]" in closed) == (policy == "redact")
    assert f"[REDACTED_{given[1].kind}]".encode() in logged


@pytest.mark.xdist_group("redis")
@pytest.mark.parametrize("policy", ["redact", "encrypt", "off"])
async def test_no_canary_is_on_the_servers(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    policy: str,
) -> None:
    """On PostgreSQL, in its write-ahead log, and in the Redis cache; with the policy off they are there."""
    given = canaries(2, seed=len(policy))
    settings = await asyncio.to_thread(settings_of, "cached", request, database=sampled_database)
    began = time.time() - CLOCK_STEP
    async with opened(tmp_path, store_policy=policy, sample_sites=(), **settings) as service:
        await send(service, given, tmp_path)
    postgres_server.sql("CHECKPOINT")
    on_disk = all_bytes(postgres_server.folder, began)  # those of other tests' databases take seconds to read
    with Redis(port=redis_server.port) as client:
        in_redis = b"".join(value_of(client, key) for key in client.scan_iter())
    assert bool(left_in(on_disk, given)) == (policy == "off")
    assert bool(left_in(in_redis, given)) == (policy == "off")
    assert (b"[REDACTED_" in in_redis) == (policy != "encrypt")  # titles are redacted before they are cut


def value_of(client: Redis, key: bytes) -> bytes:
    """All bytes of a key's value."""
    reads: dict[bytes, Callable[[], Any]] = {
        b"hash": lambda: chain.from_iterable(client.hgetall(key).items()),
        b"list": lambda: client.lrange(key, 0, -1),
        b"zset": lambda: client.zrange(key, 0, -1),
        b"string": lambda: [client.get(key)],
    }
    kind: Any = client.type(key)
    return b" ".join(reads[kind]()) if kind in reads else b""


async def test_the_policy_off_stores_them(tmp_path: Path) -> None:
    """What the test above looks for can be found."""
    given, folder = canaries(3), tmp_path / "store"
    folder.mkdir()
    async with opened(folder, store_policy="off") as service:
        await send(service, given, tmp_path)
    closed = all_bytes(folder)
    assert len(left_in(closed, given)) == len(given)


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("opensearch", marks=pytest.mark.xdist_group("opensearch")),
        pytest.param("milvus", marks=pytest.mark.xdist_group("milvus")),
    ],
)
async def test_words_are_found_where_the_search_store_has_none(
    tmp_path: Path, request: pytest.FixtureRequest, backend: str
) -> None:
    """Encrypted, on OpenSearch and in Milvus: no canary is in the data, and recall finds what was said by its words."""
    given, settings = canaries(1, seed=9), dict[str, Any]()
    if backend == "opensearch":
        server: OpenSearchServer = request.getfixturevalue("opensearch_server")
        folder, settings["store"] = server.folder, f"{server.url(f'test{token_hex(4)}')}?timeout=20"
    else:
        settings["search"] = request.getfixturevalue("conformance_milvus")
        folder = Path(urlsplit(settings["search"]).path).parent
    async with opened(tmp_path, store_policy="encrypt", sample_sites=(), **settings) as service:
        await send(service, given, tmp_path)
        await service.engine.memory.derived.catch_up()
        found = await service.engine.memory.recall(given[0].text, scope=Scope())
    assert any(given[0].value in each.text for each in found)
    assert left_in(all_bytes(folder) + all_bytes(tmp_path), given) == []
