"""Limits of concurrent turns, and turns of disconnected clients."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import Hold, Service, open_service

CHAT = "/api/v1/npc/chat"


def question(query: str, session_id: str | None = "s1", **more: Any) -> dict[str, Any]:
    """The body of a question in a thread."""
    return {"npc_id": "ancestor_yan", "query": query, "session_id": session_id, **more}


async def until(service: Service, turns: int) -> None:
    """Wait until so many turns are running or waiting."""
    async with asyncio.timeout(20):
        while len(service.app.state.turns) != turns:  # noqa: ASYNC110 — there is no event to wait for
            await asyncio.sleep(0.005)


def overloaded(response: httpx.Response) -> bool:
    """Whether the response is the overloaded problem with Retry-After."""
    assert response.json()["type"] == "urn:problem:wenmai:overloaded", response.text
    return response.status_code == 503 and int(response.headers["retry-after"]) > 0


async def questions_in(service: Service) -> list[str]:
    """The questions stored in the thread."""
    messages = (await service.client.get("/v1/sessions/s1/messages?npc_id=ancestor_yan")).json()["messages"]
    assert all(each["completed"] for each in messages)
    return [each["content"] for each in messages if each["role"] == "user"]


@asynccontextmanager
async def disconnecting_client(service: Service, body: dict[str, Any]) -> AsyncIterator[asyncio.Event]:
    """A request of a client that disconnects when the event is set; it ends before the context does."""
    disconnected = asyncio.Event()
    incoming = [{"type": "http.request", "body": json.dumps(body).encode()}]

    async def receive() -> Any:
        if incoming:
            return incoming.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(_message: Any) -> None:
        """Ignore the response."""

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    path = {"path": CHAT, "raw_path": CHAT.encode(), "query_string": b"", "root_path": ""}
    scope = {"type": "http", "method": "POST", "http_version": "1.1", "headers": headers, **path}
    request = asyncio.create_task(service.app(scope, receive, send))
    yield disconnected
    async with asyncio.timeout(20):
        await request


async def test_turns_per_thread_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn over the limit is 503 with Retry-After; other threads are not affected, and freed places are used."""
    async with open_service(tmp_path, max_thread_turns=2) as service:
        hold = Hold(monkeypatch)
        posts = [asyncio.create_task(service.client.post(CHAT, json=question(f"你好 {n}"))) for n in range(2)]
        await until(service, 2)
        assert overloaded(await service.client.post(CHAT, json=question("再问")))
        assert overloaded(await service.client.post(CHAT, json=question("再问", stream=True)))
        other = asyncio.create_task(service.client.post(CHAT, json=question("你好", "s2")))
        await until(service, 3)
        hold.go.set()
        assert [each.status_code for each in await asyncio.gather(*posts, other)] == [200] * 3
        await service.ask("再问", session_id="s1")
        asked = await questions_in(service)
        assert (sorted(asked[:2]), asked[2:]) == (["你好 0", "你好 1"], ["再问"])  # the first two were sent at once


async def test_turns_per_process_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over all threads, new sessions included; other requests are still answered."""
    async with open_service(tmp_path, max_turns=2) as service:
        hold = Hold(monkeypatch)
        posts = [asyncio.create_task(service.client.post(CHAT, json=question("你好", None))) for _ in range(2)]
        await until(service, 2)
        assert overloaded(await service.client.post(CHAT, json=question("你好", None)))
        assert (await service.client.get("/v1/sessions")).status_code == 200
        hold.go.set()
        assert [each.status_code for each in await asyncio.gather(*posts)] == [200, 200]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_waiting_turn_is_cancelled_when_its_client_disconnects(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    streamed: bool,  # noqa: FBT001
) -> None:
    """Its question is not stored, its place is freed at once, and the next waiting turn is answered."""
    async with open_service(tmp_path) as service:
        hold = Hold(monkeypatch)
        first = asyncio.create_task(service.client.post(CHAT, json=question("你好")))
        await hold.waiting.wait()
        async with disconnecting_client(service, question("有人吗", stream=streamed)) as disconnected:
            await until(service, 2)
            last = asyncio.create_task(service.client.post(CHAT, json=question("再见")))
            await until(service, 3)
            disconnected.set()
            await until(service, 2)
        hold.go.set()
        assert [each.status_code for each in await asyncio.gather(first, last)] == [200, 200]
        assert await questions_in(service) == ["你好", "再见"]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_started_turn_is_completed_without_its_client(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    streamed: bool,  # noqa: FBT001
) -> None:
    """Even if the client disconnects before the question is stored."""
    async with open_service(tmp_path) as service:
        hold = Hold(monkeypatch)
        async with disconnecting_client(service, question("你好", stream=streamed)) as disconnected:
            await hold.waiting.wait()
            disconnected.set()
            await asyncio.sleep(0)
            hold.go.set()
        await until(service, 0)
        assert await questions_in(service) == ["你好"]
