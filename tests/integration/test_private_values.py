"""Canaries: private values that users send by every way in are on no disk, in no server and in no log."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from canaries import Canary, canaries
from http_service import Service, open_service
from postgres_server import PostgresServer
from redis_server import RedisServer
from support import sampled_database, settings_of
from wenmai.interchange import import_files
from wenmai.memory.sessions import TITLE_LIMIT
from wenmai.scope import Scope
from wenmai.text.redact.log_filter import PrivateLogFilter

ROUNDS = 20


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Service]:
    """The whole service over a store; at the end all that is derived in the background is there."""
    async with open_service(folder, **settings) as service:
        yield service
        await service.engine.memory.derived.catch_up()


async def send(service: Service, given: list[Canary], folder: Path) -> None:
    """Each canary by one of the ways in, then all of them in an import."""
    client = service.client
    await service.create_session(session_id="s1")
    for number, canary in enumerate(given):
        method, url, body = way_in(number, canary)
        answer = await client.request(method, url, json=body, headers={"Idempotency-Key": f"key-{number}"})
        assert answer.status_code in (200, 201), answer.text
    chosen = {"interest_tags": [next(each.value for each in given if each.kind == "EMAIL")]}
    assert (await client.put("/api/v1/npc/sessions/s1/preference", json=chosen)).status_code == 200
    lines = [
        {"role": "user", "content": each.text, "session_id": f"i{number % 9}"} for number, each in enumerate(given)
    ]
    file = folder / "import.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    assert (await import_files(service.engine.memory, Scope(), [file])).messages == len(given)
    file.unlink()


def way_in(number: int, canary: Canary) -> tuple[str, str, Any]:
    """Method, path and body of the request that sends it."""
    text, chat = canary.text, {"npc_id": "ancestor_yan"}
    match number % 16:
        case 0:
            return "POST", "/api/v1/npc/chat", chat | {"query": f"{text} 请问祠堂是什么时候建的？"}
        case 1:
            return "POST", "/api/v1/npc/chat", chat | {"query": text, "session_id": "s2"}
        case 2 | 9:
            return "POST", "/v1/sessions", {"title": short(canary), "metadata": {"note": text}}
        case 3 | 10:
            return message({"role": "user", "content": f"{'话' * 3_990}。{text}"})
        case 4 | 11:
            return message({"role": "assistant", "content": f"You said: {text}", "name": short(canary)})
        case 5 | 12:
            return message({"role": "user", "content": "x", "metadata": {"deep": [{"said": text}]}})
        case 6 | 13:
            return message({"role": "assistant", "content": "", "tool_calls": [called(canary)]})
        case _:
            return message({"role": "user", "content": text})


def short(canary: Canary) -> str:
    """The canary's sentence, or if that is too long for a title the value, which is recognized without it."""
    return canary.text if len(canary.text) <= TITLE_LIMIT else canary.value


def message(body: dict[str, Any]) -> tuple[str, str, Any]:
    """The request that appends a message to the session."""
    return "POST", "/v1/sessions/s1/messages", {"messages": [body]}


def called(canary: Canary) -> dict[str, Any]:
    """A tool call with the canary as a text and as a member."""
    arguments = json.dumps({"text": canary.text, "value": canary.text})
    return {"id": "call-1", "type": "function", "function": {"name": "send", "arguments": arguments}}


def left_in(data: bytes, given: list[Canary]) -> list[Canary]:
    """The canaries that the data has."""
    return [canary for canary in given if canary.value.encode() in data]


@pytest.fixture
def log_file(tmp_path: Path) -> Iterator[Path]:
    """A file with everything that is logged, screened as the service's log is."""
    handler = logging.FileHandler(tmp_path / "log.txt")
    handler.addFilter(PrivateLogFilter())
    handler.setFormatter(logging.Formatter("%(name)s %(message)s"))
    logger = logging.getLogger("wenmai")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield tmp_path / "log.txt"
    logger.removeHandler(handler)
    logger.setLevel(level)
    handler.close()


async def test_no_canary_is_in_the_files_or_the_log(tmp_path: Path, log_file: Path) -> None:
    """After a chat, messages, an import and more, none is in the database file, its log, or the log of the service."""
    given = canaries(ROUNDS)
    folder = tmp_path / "store"
    folder.mkdir()
    async with opened(folder) as service:
        await send(service, given, tmp_path)
        while_open = b"".join(file.read_bytes() for file in folder.iterdir())
        logging.getLogger("wenmai.test").error("failed: %s", given[1].text)
    closed = b"".join(file.read_bytes() for file in folder.iterdir())
    logged = log_file.read_bytes()
    assert left_in(while_open + closed + logged, given) == []
    assert b"[REDACTED_PHONE]" in closed
    assert f"[REDACTED_{given[1].kind}]".encode() in logged


@pytest.mark.xdist_group("redis")
@pytest.mark.parametrize("policy", ["redact", "off"])
async def test_no_canary_is_on_the_servers(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    postgres_server: PostgresServer,
    redis_server: RedisServer,
    policy: str,
) -> None:
    """On PostgreSQL, in its write-ahead log, and in the Redis cache; with the policy off they are there."""
    given = canaries(2, seed=2 if policy == "redact" else 3)
    settings = await asyncio.to_thread(settings_of, "cached", request, database=sampled_database)
    async with opened(tmp_path, store_policy=policy, sample_sites=(), **settings) as service:
        await send(service, given, tmp_path)
    postgres_server.sql("CHECKPOINT")
    on_disk = b"".join(file.read_bytes() for file in postgres_server.folder.rglob("*") if file.is_file())
    with Redis(port=redis_server.port) as client:
        in_redis = b"".join(value_of(client, key) for key in client.scan_iter())
    assert bool(left_in(on_disk, given)) == (policy == "off")
    assert bool(left_in(in_redis, given)) == (policy == "off")
    assert b"[REDACTED_" in in_redis


def value_of(client: Redis, key: bytes) -> bytes:
    """All bytes of a key's value."""
    match client.type(key):
        case b"hash":
            return b" ".join(part for pair in client.hgetall(key).items() for part in pair)
        case b"list":
            return b" ".join(client.lrange(key, 0, -1))
        case b"zset":
            return b" ".join(client.zrange(key, 0, -1))
        case b"string":
            return bytes(client.get(key) or b"")
    return b""


async def test_the_policy_off_stores_them(tmp_path: Path) -> None:
    """What the test above looks for can be found."""
    given, folder = canaries(3), tmp_path / "store"
    folder.mkdir()
    async with opened(folder, store_policy="off") as service:
        await send(service, given, tmp_path)
    closed = b"".join(file.read_bytes() for file in folder.iterdir())
    assert len(left_in(closed, given)) == len(given)
