"""A stopping service exits in time, loses nothing, and fails no request that is retried elsewhere."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from service_process import ServiceProcess, kill
from simulated_users import CHAT, events, simulated_users
from table_locks import held_at, somebody_waits
from talk_checker import NPC, VISITOR, Json, transcript_of, wrong_talks

from model_server import ModelServer
from postgres_server import PostgresServer
from support import engine_at
from wenmai.chat.turn import TurnRequest
from wenmai.cli.server import EXIT_SHUTDOWN_TIMEOUT

pytestmark = pytest.mark.xdist_group("services")

BOUND_SECONDS = 10.0
"""Default limit of a shutdown."""

SHORT_SHUTDOWN = {"WENMAI_SHUTDOWN_SECONDS": "3"}
ENGLISH = "When was the Yan ancestral hall built?"


@pytest.fixture(scope="module")
def database(postgres_process: PostgresServer) -> str:
    """A database shared by the tests, each with its own sessions."""
    return postgres_process.store()


class Services:
    """Starts services; kills the remaining ones at the end."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._started: list[ServiceProcess] = []

    async def start(self, *options: str, **settings: str) -> ServiceProcess:
        """Start a service."""
        service = await asyncio.to_thread(ServiceProcess, *options, log=self._log, **settings)
        self._started.append(service)
        return service

    def remove(self) -> None:
        """Kill all services."""
        for service in self._started:
            service.remove()


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    """Starts services."""
    started = Services(tmp_path / "log")
    yield started
    started.remove()


async def restart_in_turn(services: Services, database: str, rounds: int) -> None:
    """Stop two services in turn under load; each is replaced on its port."""
    options = [["--store", database, "--workers", workers] for workers in ("1", "2")]
    pair = [await services.start(*each) for each in options]
    async with simulated_users([service.url for service in pair], own=4, hot=3) as users:
        for number in range(2 * rounds):
            await users.next_answer()
            stopped = pair[number % 2]
            status, seconds = await stopped.terminate()
            assert (status, seconds < BOUND_SECONDS) == (0, True)
            pair[number % 2] = await services.start(*options[number % 2], "--port", stopped.port)
        await users.next_answer_of_each()
    print(f"{2 * rounds} stops, {users}")  # noqa: T201 — for the soak test
    assert await wrong_talks(database, users.answered) == []


async def test_two_services_restarted_in_turn_under_load_fail_no_request(services: Services, database: str) -> None:
    """Each exits with 0 in time; every request is eventually answered, with exactly one effect."""
    await restart_in_turn(services, database, rounds=1)


@pytest.mark.soak
async def test_twenty_stops_under_load_fail_no_request(services: Services, database: str) -> None:
    """The same, longer."""
    await restart_in_turn(services, database, rounds=10)


async def post(service: ServiceProcess, session_id: str, query: str) -> httpx.Response:
    """The response to a question."""
    body = {"npc_id": NPC, "query": query, "session_id": session_id}
    async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
        return await client.post(service.url + CHAT, json=body, headers={"X-User-ID": VISITOR.user_id})


async def test_slow_clients_do_not_keep_a_service_from_stopping(services: Services, database: str) -> None:
    """A partial request, an unread stream and an idle connection: the service exits with 0."""
    service = await services.start("--store", database, **SHORT_SHUTDOWN)
    body = json.dumps({"npc_id": NPC, "query": "家训第一条是什么？", "session_id": "slow", "stream": True}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nX-User-ID: visitor\r\nContent-Length: {len(body)}\r\n"
    head += "Content-Type: application/json\r\n\r\n"
    writers = []
    for sent in (head.encode() + body[:10], head.encode() + body, b""):
        reader, writer = await asyncio.open_connection("127.0.0.1", int(service.port), limit=1)
        writer.write(sent)
        writers.append(writer)
        if sent.endswith(body):
            await reader.read(1)
    status, seconds = await service.terminate()
    for writer in writers:
        writer.close()
    assert (status, seconds < BOUND_SECONDS) == (0, True)
    async with engine_at(database) as engine:
        assert [message.completed for message in await transcript_of(engine, "slow")] == [True, True]


async def test_a_turn_with_a_slow_model_is_cancelled_with_an_error(
    services: Services, database: str, model_server: ModelServer
) -> None:
    """The client gets a 503 event, and the question is stored; a retry with the same key elsewhere answers it."""
    model = ["--model", f"openai:{model_server.model}", "--model-base-url", model_server.base_url]
    service = await services.start("--store", database, *model, **SHORT_SHUTDOWN)
    body = {"npc_id": "village_elder", "query": ENGLISH, "session_id": "modelled"}
    headers = {"X-User-ID": VISITOR.user_id, "Idempotency-Key": "key", "Accept": "text/event-stream"}
    received: list[tuple[str, Json]] = []
    stopping: list[asyncio.Task[tuple[int, float]]] = []
    async with (
        httpx.AsyncClient(timeout=60, trust_env=False) as client,
        client.stream("POST", service.url + CHAT, json=body, headers=headers) as response,
    ):
        async for event in events(response):
            received.append(event)
            if event[1].get("name") == "prompt":
                stopping.append(asyncio.create_task(service.terminate()))
    status, seconds = await stopping[0]
    assert (status, seconds < BOUND_SECONDS) == (0, True)
    kind, data = received[-1]
    assert (kind, data["status"], data["type"]) == ("error", 503, "urn:problem:wenmai:stopping")
    request = TurnRequest(
        scope=VISITOR, persona_id="village_elder", query=ENGLISH, session_id="modelled", idempotency_key="key"
    )
    async with engine_at(database) as engine:
        answer = await engine.chat.ask(request)
        traces = [each.record for each in (await engine.traces.list(VISITOR, where={"session_id": "modelled"})).items]
    assert (answer.session_id, answer.turn_id) == ("modelled", 1)
    assert [(trace.turn_id, trace.error) for trace in traces] == [(1, None), (1, "CancelledError")]


async def test_a_store_that_hangs_does_not_keep_a_service_from_ending(services: Services, database: str) -> None:
    """It exits at the time limit with its own exit status; acknowledged data is stored."""
    service = await services.start("--store", database, **SHORT_SHUTDOWN)
    answer = (await post(service, "hanging", "家训第一条是什么？")).json()
    async with held_at(database, "traces"):
        hanging = asyncio.create_task(post(service, "hanging", "祠堂是什么时候建的？"))
        await somebody_waits(database)
        status, seconds = await service.terminate()
        assert (await hanging).headers["Retry-After"]
    assert (status, seconds < BOUND_SECONDS) == (EXIT_SHUTDOWN_TIMEOUT, True)
    async with engine_at(database) as engine:
        transcript = await transcript_of(engine, "hanging")
    assert transcript[1].content == answer["answer_text"]


async def test_a_service_that_is_stopped_right_after_its_start_stops(services: Services) -> None:
    """The signal may arrive before uvicorn has installed its handlers."""
    service = await services.start("--store", "memory://")
    async with asyncio.timeout(BOUND_SECONDS):
        status, _ = await service.terminate()
    assert status == 0


async def test_workers_end_with_their_parent(services: Services, tmp_path: Path) -> None:
    """After ``kill -9`` of the parent, no process holds the port."""
    service = await services.start("--store", f"sqlite:///{tmp_path}/wenmai.db", "--workers", "2")
    workers = service.workers()
    kill(service.pid)
    async with asyncio.timeout(2 * BOUND_SECONDS):
        while any(Path(f"/proc/{worker}").exists() for worker in workers):  # noqa: ASYNC110, ASYNC240 — not our children
            await asyncio.sleep(0.05)
    with socket.create_server(("127.0.0.1", int(service.port))):
        pass
