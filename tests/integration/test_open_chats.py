"""Fifty people chat over two workers, which stream their answers and are replaced one after the other."""

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest
from service_process import ServiceProcess, kill
from simulated_users import CHAT
from talk_checker import NPC

pytestmark = pytest.mark.xdist_group("services")

CHATS, TURNS = 50, 4
QUESTION = "家训第一条是什么？"
SECONDS = 60.0


class Chat:
    """A user with one session.

    Attributes:
        answers: the text of each completed answer.
        resumed: streams that broke off, and were asked for again under the same key.
    """

    def __init__(self, url: str, number: int, answered: asyncio.Queue[None]) -> None:
        self._answered = answered
        self.answers: list[str] = []
        self.resumed = 0
        self._url = url
        self._session = f"chat-{number}"
        self._user = {"X-User-ID": f"guest-{number}"}

    async def talk(self, client: httpx.AsyncClient) -> None:
        """Ask one question after another, each until its answer is complete."""
        for turn in range(TURNS):
            body = {"npc_id": NPC, "query": f"{QUESTION} {turn}", "session_id": self._session, "stream": True}
            while (done := await self._streamed(client, body, f"{self._session}-{turn}")) is None:
                self.resumed += 1
                await asyncio.sleep(0.1)
            self.answers.append(done["answer_text"])
            self._answered.put_nowait(None)

    async def _streamed(self, client: httpx.AsyncClient, body: dict[str, Any], key: str) -> dict[str, Any] | None:
        """The last event of the answer; None if the stream broke off."""
        event = ""
        try:
            headers = {**self._user, "Idempotency-Key": key}
            async with client.stream("POST", self._url + CHAT, json=body, headers=headers) as response:
                async for line in response.aiter_lines():
                    name, _, value = line.partition(": ")
                    event = value if name == "event" else event
                    if name == "data" and event == "done":
                        done: dict[str, Any] = json.loads(value)
                        return done
        except httpx.TransportError:
            return None
        return None

    async def stored(self, client: httpx.AsyncClient) -> list[tuple[str, str]]:
        """Role and text of each complete message."""
        path = f"{self._url}/v1/sessions/{self._session}/messages"
        found = await client.get(path, params={"limit": 500}, headers=self._user)
        return [(each["role"], each["content"]) for each in found.json()["messages"] if each["completed"]]

    @property
    def expected(self) -> list[tuple[str, str]]:
        """What should be stored: each question once, and the answer that was received."""
        return [
            pair
            for turn, answer in enumerate(self.answers)
            for pair in (("user", f"{QUESTION} {turn}"), ("assistant", answer))
        ]


async def test_fifty_chats_stream_on_while_the_workers_are_replaced(tmp_path: Path) -> None:
    """One is asked to stop, the other killed: every question is answered once, and what was received is stored."""
    service = ServiceProcess("--store", f"sqlite:///{tmp_path}/w.db", "--workers", "2", log=tmp_path / "log")
    try:
        stopped, killed = service.workers()
        answered: asyncio.Queue[None] = asyncio.Queue()
        chats = [Chat(service.url, each, answered) for each in range(CHATS)]
        limits = httpx.Limits(max_connections=None)
        async with (
            httpx.AsyncClient(timeout=SECONDS, trust_env=False, limits=limits) as client,
            asyncio.timeout(SECONDS),
        ):
            talks = asyncio.gather(*(chat.talk(client) for chat in chats))
            for worker, number in ((stopped, signal.SIGTERM), (killed, signal.SIGKILL)):
                for _ in range(CHATS):
                    await answered.get()
                kill(worker, number)
            await talks
            assert [await chat.stored(client) for chat in chats] == [chat.expected for chat in chats]
        assert {stopped, killed}.isdisjoint(service.workers())
        assert sum(chat.resumed for chat in chats) > 0
    finally:
        service.remove()
