"""Services that share a store, with kills, pauses and disconnects: acknowledged answers remain valid."""

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import asyncpg
import httpx
import pytest
from service_process import ServiceProcess, kill
from simulated_users import CHAT, simulated_users
from table_locks import cut_off_who_waits, held_at, somebody_waits
from talk_checker import NPC, VISITOR, Answered, Json, wrong_talks

from postgres_server import PostgresServer
from wenmai.memory.idempotency import key_digest
from wenmai.stores.lease import LEASE

pytestmark = pytest.mark.xdist_group("services")

SLACK_SECONDS = 10.0
"""Added to time limits for a busy machine."""

TIMEOUT_SECONDS = 60.0
MOMENTS: dict[str, Literal["INSERT", "UPDATE"]] = {"traces": "INSERT", "idempotent_turns": "UPDATE"}
"""Writes before which the workers are killed: of the trace, and of the answer under its key."""

ANSWERS_BETWEEN_KILLS = 4
"""Answers between two kills, so that there is something to lose."""


@pytest.fixture(scope="module")
def database(postgres_process: PostgresServer) -> str:
    """A database that the tests share."""
    return postgres_process.store()


@pytest.fixture
def four_workers(database: str, tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service of four workers over the database."""
    service = ServiceProcess("--store", database, "--workers", "4", log=tmp_path / "log")
    yield service
    service.remove()


@pytest.fixture
def two_services(database: str, tmp_path: Path) -> Iterator[list[ServiceProcess]]:
    """Two services over the database, as on two machines."""
    services = [ServiceProcess("--store", database, log=tmp_path / f"log-{number}") for number in range(2)]
    yield services
    for service in services:
        service.remove()


async def kill_workers(service: ServiceProcess, database: str, kills: int) -> None:
    """Kill one worker after another under load; afterwards every thread continues within the time limit."""
    async with simulated_users([service.url], own=5, hot=3) as users:
        for _ in range(kills):
            await asyncio.sleep(random.random() * 0.3)  # noqa: S311 — the moment should differ from run to run
            for _ in range(ANSWERS_BETWEEN_KILLS):
                await users.next_answer()
            kill(random.choice(service.workers()))  # noqa: S311
        async with asyncio.timeout(LEASE.total_seconds() + SLACK_SECONDS):
            await users.next_answer_of_each()
    print(f"{kills} kills, {users}")  # noqa: T201 — for the soak test
    assert await wrong_talks(database, users.answered) == []


async def ask(service: ServiceProcess, key: str) -> Json:
    """The answer to a request with this key."""
    body = {"npc_id": NPC, "query": question(key)}
    headers = {"Idempotency-Key": key, "X-User-ID": VISITOR.user_id}
    async with httpx.AsyncClient(timeout=TIMEOUT_SECONDS, trust_env=False) as client:
        answer = await client.post(service.url + CHAT, json=body, headers=headers)
    assert answer.status_code == httpx.codes.OK
    parsed: Json = answer.json()
    return parsed


def question(key: str) -> str:
    """The question for this key."""
    return f"家训第一条是什么？ {key}"


async def an_answer_is_stored(database: str, key: str) -> None:
    """Wait until the turn of this key is complete."""
    connection = await asyncpg.connect(database)
    stored = "SELECT count(*) FROM messages, pg_sleep(0.02) WHERE given_id LIKE $1 AND completed"
    try:
        async with asyncio.timeout(SLACK_SECONDS):
            while not await connection.fetchval(stored, f"msg-idem-{key_digest(key)}%-answer"):
                pass
    finally:
        await connection.close()


async def test_kills_of_workers_lose_and_duplicate_nothing(four_workers: ServiceProcess, database: str) -> None:
    """Five random kills under load, then all four workers killed between effect and response, at two points.

    Every received answer is in the transcript exactly once, under its key, and no thread stays blocked. Killed before
    the answer is completed, or after that but before the key is recorded: one question, one answer.
    """
    await kill_workers(four_workers, database, 5)
    answers = []
    for table, event in MOMENTS.items():
        async with held_at(database, table, event):
            first = asyncio.create_task(ask(four_workers, table))
            await somebody_waits(database)
            for worker in four_workers.workers():
                kill(worker)
            with pytest.raises(httpx.TransportError):
                await first
            await cut_off_who_waits(database)
        answer = await ask(four_workers, table)
        assert await ask(four_workers, table) == answer
        answers.append(Answered(table, question(table), answer))
    assert await wrong_talks(database, answers) == []


@pytest.mark.soak
async def test_two_hundred_kills_of_workers_lose_and_duplicate_nothing(
    four_workers: ServiceProcess, database: str
) -> None:
    """The same, longer."""
    await kill_workers(four_workers, database, 200)


async def test_two_services_alternate_and_a_paused_one_changes_nothing(
    two_services: list[ServiceProcess], database: str
) -> None:
    """Eight users share one session through both services, with disconnects: the turns are serialized.

    Then one service is paused before its answer is stored, and the retry at the other takes over. After it resumes, it
    returns the same answer to its own client; also if it resumes, and stores its answer, while the other is working.
    """
    async with simulated_users([service.url for service in two_services], own=0, hot=8) as users:
        for _ in range(40):
            await users.next_answer()
    assert await wrong_talks(database, users.answered) == []

    sleeper, successor = two_services
    answers = []
    for key in ("slept", "woke early"):
        async with held_at(database, "traces"):
            first = asyncio.create_task(ask(sleeper, key))
            await somebody_waits(database)
            kill(sleeper.pid, signal.SIGSTOP)
        if key == "slept":
            again = await ask(successor, key)
            kill(sleeper.pid, signal.SIGCONT)
        else:
            async with held_at(database, "traces"):
                second = asyncio.create_task(ask(successor, key))
                await somebody_waits(database)
                kill(sleeper.pid, signal.SIGCONT)
                await an_answer_is_stored(database, key)
            again = await second
        assert await first == again
        answers.append(Answered(key, question(key), again))
    assert await wrong_talks(database, answers) == []
