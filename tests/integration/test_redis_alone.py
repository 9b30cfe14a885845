"""``wenmai serve --store redis://…``: the whole service with Redis as its only store, in processes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from cli_process import wenmai
from redis import Redis
from service_process import ServiceProcess

from redis_server import RedisServer
from support import REDIS_TIMEOUTS, empty_redis

SECONDS = 60
WELL = "后山古井凿于崇祯三年，井深九丈。"


@asynccontextmanager
async def serving(store: str, log: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a service over the store, which runs as long as the context lasts."""
    service = ServiceProcess("--store", store, log=log)
    try:
        async with httpx.AsyncClient(base_url=service.url, timeout=SECONDS) as client:
            yield client
        assert (await service.terminate())[0] == 0
    finally:
        service.remove()


async def asked(client: httpx.AsyncClient, query: str, **more: str) -> Any:
    """The answer of a successful turn."""
    question = {"tenant_id": "default", "site_id": "default", "npc_id": "village_elder", "query": query, **more}
    response = await client.post("/api/v1/npc/chat", json=question)
    assert response.status_code == 200, response.text
    return response.json()


def cited(answer: Any) -> list[str]:
    """The ids of an answer's citations."""
    return [citation["evidence_id"] for citation in answer["citations"]]


async def test_two_services_share_one_redis(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Both answer with citations, continue each other's sessions, and see evidence ingested by the other or the CLI."""
    store, log = empty_redis(request), tmp_path / "log"
    async with serving(store, log) as first, serving(store, log) as second:
        answer = await asked(first, "严氏祠堂是哪一年建的？")
        assert (answer["policy_mode"], cited(answer)) == ("normal", ["hall-01"])
        assert "1523" in answer["answer_text"]
        assert (await asked(second, "是谁主持修建的？", session_id=answer["session_id"]))["turn_id"] == 2

        assert cited(await asked(second, "后山古井是哪一年凿的？")) == []
        passage = {"evidence_id": "well", "title": "后山古井", "text": WELL, "domains": ["village"]}
        ingested = await first.post("/api/v1/evidence", json={"evidence": [passage]})
        assert ingested.status_code == 200, ingested.text
        known = await asked(second, "后山古井是哪一年凿的？")
        assert cited(known) == ["well"]
        assert "崇祯三年" in known["answer_text"]
        assert (await second.delete("/api/v1/evidence/well")).status_code == 200
        assert cited(await asked(first, "后山古井是哪一年凿的？")) == []

        (tmp_path / "well.md").write_text(f"# 后山古井\n\n{WELL}\n", encoding="utf-8")
        command = ("ingest", "well.md", "--domain", "village", "--store", store)
        done = await asyncio.to_thread(wenmai, *command, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(cited(await asked(first, "后山古井是哪一年凿的？"))) == 1
    with Redis.from_url(store.partition("?")[0]) as client:
        assert {key.partition(b":")[0] for key in client.scan_iter()} == {b"yantian"}


async def test_acknowledged_data_survives_a_kill_with_appendfsync_always(tmp_path: Path) -> None:
    """After ``kill -9`` and a restart of the server conversation and evidence are there, in the same service."""
    server = RedisServer("--appendonly", "yes", "--appendfsync", "always", "--dir", str(tmp_path))
    server.start()
    try:
        async with serving(f"{server.url}?{REDIS_TIMEOUTS}", tmp_path / "log") as client:
            answer = await asked(client, "严氏祠堂是哪一年建的？")
            server.kill()
            messages = f"/v1/sessions/{answer['session_id']}/messages?npc_id=village_elder"
            gone = await client.get(messages)
            assert (gone.status_code, "retry-after" in gone.headers) == (503, True)
            server.start()
            kept = (await client.get(messages)).json()["messages"]
            assert [message["content"] for message in kept] == ["严氏祠堂是哪一年建的？", answer["answer_text"]]
            again = await asked(client, "严氏祠堂是哪一年建的？", session_id=answer["session_id"])
            assert (again["turn_id"], cited(again)) == (2, ["hall-01"])
    finally:
        server.stop()
