"""Services that share a store: killed, paused, left in the middle of an answer. What visitors were told stays true."""

import asyncio
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest
from service_process import ServiceProcess, kill
from table_locks import cut_off_who_waits, held_at, somebody_waits
from talk_checker import NPC, VISITOR, Answered, Json, wrong_talks
from visitors import CHAT, visiting

from postgres_server import PostgresServer
from wenmai.memory.idempotency import key_digest
from wenmai.memory.turns import LEASE

pytestmark = pytest.mark.xdist_group("services")

SLACK_SECONDS = 10.0
"""For a busy machine, on top of a bound."""

PATIENCE_SECONDS = 60.0
BETWEEN_KILLS = 4
"""So many answers are heard between two kills, so that there is something to be lost."""


@pytest.fixture(scope="module")
def database(postgres_process: PostgresServer) -> str:
    """A database that the tests share."""
    return postgres_process.database()


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
    """``kill -9`` for one worker after the other while visitors ask; then every thread goes on within the bound."""
    async with visiting([service.url], own=5, hot=3) as visitors:
        for _ in range(kills):
            await asyncio.sleep(random.random() * 0.3)  # noqa: S311 — the moment should differ from run to run
            for _ in range(BETWEEN_KILLS):
                await visitors.hear()
            kill(random.choice(service.workers()))  # noqa: S311
        async with asyncio.timeout(LEASE.total_seconds() + SLACK_SECONDS):
            await visitors.all_hear()
    print(f"{kills} kills, {visitors}")  # noqa: T201 — of the long form
    assert await wrong_talks(database, visitors.answered) == []


async def ask(service: ServiceProcess, key: str) -> Json:
    """The answer to a request with this key."""
    body = {"npc_id": NPC, "query": question(key)}
    headers = {"Idempotency-Key": key, "X-User-ID": VISITOR.user_id}
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS, trust_env=False) as client:
        answer = await client.post(service.url + CHAT, json=body, headers=headers)
    assert answer.status_code == httpx.codes.OK
    told: Json = answer.json()
    return told


def question(key: str) -> str:
    """What is asked with this key."""
    return f"家训第一条是什么？ {key}"


async def an_answer_is_stored(database: str, key: str) -> None:
    """Return when the turn of this key is complete."""
    connection = await asyncpg.connect(database)
    stored = "SELECT count(*) FROM messages, pg_sleep(0.02) WHERE given_id LIKE $1 AND completed"
    try:
        async with asyncio.timeout(SLACK_SECONDS):
            while not await connection.fetchval(stored, f"msg-idem-{key_digest(key)}%-answer"):
                pass
    finally:
        await connection.close()


async def test_kills_of_workers_lose_and_double_nothing(four_workers: ServiceProcess, database: str) -> None:
    """Ten at random under load, then all four between effect and answer, in two places.

    Every answer that a visitor got is in the transcript, once, under its key, and no thread stays blocked. Killed
    before the answer is filled in, or after but before the key knows it: one question, one answer.
    """
    await kill_workers(four_workers, database, 10)
    told = []
    for table in ("traces", "idempotent_turns"):
        async with held_at(database, table):
            first = asyncio.create_task(ask(four_workers, table))
            await somebody_waits(database)
            for worker in four_workers.workers():
                kill(worker)
            with pytest.raises(httpx.TransportError):
                await first
            await cut_off_who_waits(database)
        answer = await ask(four_workers, table)
        assert await ask(four_workers, table) == answer
        told.append(Answered(table, question(table), answer))
    assert await wrong_talks(database, told) == []


@pytest.mark.soak
async def test_two_hundred_kills_of_workers_lose_and_double_nothing(
    four_workers: ServiceProcess, database: str
) -> None:
    """The same for long."""
    await kill_workers(four_workers, database, 200)


async def test_two_services_take_turns_and_one_that_slept_through_its_own_changes_nothing(
    two_services: list[ServiceProcess], database: str
) -> None:
    """Eight visitors talk in one session, to either service, and go away in the middle: turn follows turn.

    Then one service is stopped before its answer is stored, and the retry at the other takes over. Awake, it gives
    its own visitor the same answer; also if it wakes up, and stores its answer, while the other is still at work.
    """
    async with visiting([service.url for service in two_services], own=0, hot=8) as visitors:
        for _ in range(40):
            await visitors.hear()
    assert await wrong_talks(database, visitors.answered) == []

    sleeper, successor = two_services
    told = []
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
        told.append(Answered(key, question(key), again))
    assert await wrong_talks(database, told) == []
