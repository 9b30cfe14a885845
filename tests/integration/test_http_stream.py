"""Turns as server-sent events: order, durability, slow and disconnected readers, shutdown."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import Hold, Service, listening, open_service, settings_in

from wenmai.chat.turn import Token, TurnStarted
from wenmai.errors import StoreUnavailable
from wenmai.http import stream
from wenmai.http.app import serve_app
from wenmai.http.turn_tasks import TurnTask, TurnTasks

CHAT = "/api/v1/npc/chat"
BODY = {"npc_id": "ancestor_yan", "query": "请问严氏家训有哪些？", "session_id": "s1"}
SSE = {"Accept": "text/event-stream"}
MESSAGES = "/v1/sessions/s1/messages"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file, in this event loop."""
    async with open_service(tmp_path) as opened:
        yield opened


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """The URL of a service on a real port."""
    with listening(serve_app(settings_in(tmp_path))) as base:
        yield base


def events_in(text: str) -> list[tuple[str, Any]]:
    """Name and data of each event, without comments."""
    found = []
    for block in text.split("\n\n"):
        if block and not block.startswith(":"):
            name, data = block.split("\n")
            found.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return found


@pytest.mark.parametrize("by", ["header", "body"])
async def test_events_come_in_order_and_the_tokens_make_the_answer(service: Service, by: str) -> None:
    """start, steps and tokens, done with the same answer as the JSON response; by Accept or ``stream``."""
    headers, body = (SSE, BODY) if by == "header" else ({}, BODY | {"stream": True})
    response = await service.client.post(CHAT, json=body, headers=headers)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.headers["cache-control"] == "no-store"
    events = events_in(response.text)
    names = [name for name, _ in events]
    assert (names[0], names[-1]) == ("start", "done")
    assert set(names[1:-1]) == {"step", "token"}
    start, done = events[0][1], events[-1][1]
    assert {field: done[field] for field in start} == start
    assert "".join(data["text"] for name, data in events if name == "token") == done["answer_text"]
    assert all(data["duration_ms"] >= 0 for name, data in events if name == "step")
    assert done["citations"]


async def test_done_is_sent_when_the_answer_is_stored(service: Service) -> None:
    """When done is sent, the completed answer and its trace are stored; both are read before it is passed on."""
    incoming = [{"type": "http.request", "body": json.dumps(BODY | {"stream": True}).encode()}]
    found: list[bool] = []

    async def receive() -> Any:
        return incoming.pop() if incoming else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        if not message.get("body", b"").startswith(b"event: done"):
            return
        ((_, done),) = events_in(message["body"].decode())
        messages = (await service.client.get(MESSAGES)).json()["messages"]
        found.append(messages[-1]["completed"] and messages[-1]["content"] == done["answer_text"])
        found.append((await service.client.get(f"/api/v1/npc/traces/{done['trace_id']}")).status_code == 200)

    path = {"path": CHAT, "raw_path": CHAT.encode(), "query_string": b"", "root_path": ""}
    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "http_version": "1.1", "headers": headers, **path}
    await service.app(scope, receive, send)
    assert found == [True, True]


async def test_an_error_before_the_first_event_is_an_ordinary_problem(service: Service) -> None:
    """No stream is started for an unknown persona or an invalid body."""
    unknown = await service.client.post(CHAT, json=BODY | {"npc_id": "unknown"}, headers=SSE)
    assert (unknown.status_code, unknown.headers["content-type"]) == (404, "application/problem+json")
    assert (await service.client.post(CHAT, json=BODY | {"query": ""}, headers=SSE)).status_code == 422


async def test_a_later_error_is_an_error_event(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last event is the problem, and no done follows."""

    async def down(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("sqlite", "disk full")

    monkeypatch.setattr(service.engine.memory.transcript, "complete", down)
    response = await service.client.post(CHAT, json=BODY, headers=SSE)
    events = events_in(response.text)
    assert events[0][0] == "start"
    name, problem = events[-1]
    assert (name, problem["status"]) == ("error", 503)
    assert "done" not in [name for name, _ in events]


async def test_pings_are_sent_while_idle(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pings precede the first event, and the stream continues normally."""
    monkeypatch.setattr(stream, "PING_SECONDS", 0.01)
    hold = Hold(monkeypatch)
    post = asyncio.create_task(service.client.post(CHAT, json=BODY, headers=SSE))
    await hold.waiting.wait()
    await asyncio.sleep(0.1)
    hold.go.set()
    text = (await post).text
    assert text.startswith(": ping\n\n")
    assert [name for name, _ in events_in(text)][-1] == "done"


async def test_a_stream_over_a_real_connection(address: str) -> None:
    """Through uvicorn, over a socket."""
    async with httpx.AsyncClient(base_url=address) as client:
        response = await client.post(CHAT, json=BODY, headers=SSE)
        names = [name for name, _ in events_in(response.text)]
        assert (response.http_version, response.headers["transfer-encoding"]) == ("HTTP/1.1", "chunked")
        assert (names[0], names[-1]) == ("start", "done")


@pytest.mark.parametrize("headers", [SSE, {}])
async def test_a_turn_continues_when_its_client_disconnects(address: str, headers: dict[str, str]) -> None:
    """The connection is aborted as soon as the question is stored; the answer is still completed."""
    host, port = address.removeprefix("http://").split(":")
    body = json.dumps(BODY).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    async with httpx.AsyncClient(base_url=address) as client:
        pages: list[dict[str, Any]] = [{}]
        while not pages[-1].get("messages"):
            pages.append((await client.get(MESSAGES)).json())
        writer.transport.abort()
        async with asyncio.timeout(10):
            while not all(message["completed"] for message in pages[-1]["messages"]):
                pages.append((await client.get(MESSAGES)).json())
    assert [message["role"] for message in pages[-1]["messages"]] == ["user", "assistant"]


async def test_a_cancelled_request_does_not_cancel_its_turn(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers cancel requests of closed connections; the turn completes and is removed from the set."""
    hold = Hold(monkeypatch)
    post = asyncio.create_task(service.client.post(CHAT, json=BODY))
    await hold.waiting.wait()
    post.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await post
    turns: TurnTasks = service.app.state.turns
    assert len(turns) == 1
    hold.go.set()
    await turns.drain(10)
    assert len(turns) == 0
    assert [each["completed"] for each in (await service.client.get(MESSAGES)).json()["messages"]] == [True, True]


async def test_stopping_waits_for_running_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lifespan ends after the turn, even if no client waits for its answer."""
    async with open_service(tmp_path) as service:
        hold = Hold(monkeypatch)
        post = asyncio.create_task(service.client.post(CHAT, json=BODY))
        await hold.waiting.wait()
        post.cancel()
        asyncio.get_running_loop().call_later(0.05, hold.go.set)
        turns: TurnTasks = service.app.state.turns
    assert len(turns) == 0
    async with open_service(tmp_path) as again:
        messages = (await again.client.get(MESSAGES)).json()["messages"]
        assert [message["completed"] for message in messages] == [True, True]


async def test_a_turn_is_cancelled_when_the_drain_times_out() -> None:
    """The turn is cancelled and the set is empty."""
    turns = TurnTasks(max_total=1, max_per_thread=1)
    outcome: list[str] = []

    async def endless(_turn: TurnTask[None]) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            outcome.append("cancelled")

    turns.start(endless)
    await turns.drain(0.01)
    assert (outcome, len(turns)) == (["cancelled"], 0)


async def test_the_queue_of_a_slow_reader_is_bounded_and_complete() -> None:
    """100 000 unread tokens are merged into a few events that still contain the whole text."""
    events = stream.EventQueue[None]()
    for n in range(100_000):
        await events.put(Token(f"{n},"))
    assert len(events) <= stream.MAX_PENDING_EVENTS
    ended: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(0))
    await ended
    events.finish(ended)
    text = b"".join([chunk async for chunk in events.chunks()]).decode()
    received = "".join(data["text"] for name, data in events_in(text) if name == "token")
    assert received == "".join(f"{n}," for n in range(100_000))


async def test_events_for_a_disconnected_reader_are_dropped() -> None:
    """The turn continues; its events are not queued."""
    events = stream.EventQueue[None]()
    await events.put(TurnStarted("t", "s", 1, "elder"))
    events.close()
    await events.put(Token("x"))
    assert len(events) == 0
    assert [chunk async for chunk in events.chunks()] == []


async def test_a_stream_ends_with_an_error_if_an_event_cannot_be_sent() -> None:
    """Every stream has a final event."""
    events = stream.EventQueue[None]()
    await events.put(Token("\ud83d"))
    await events.put(Token("x"))
    text = b"".join([chunk async for chunk in events.chunks()]).decode()
    ((name, problem),) = events_in(text)
    assert (name, problem["status"]) == ("error", 500)
