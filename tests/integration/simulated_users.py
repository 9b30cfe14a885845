"""Load generator for services that are killed and restarted: users ask, retry failed requests, and record answers."""

import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from secrets import token_hex

import httpx
from talk_checker import NPC, Answered, Json

CHAT = "/api/v1/npc/chat"
QUESTIONS = ("家训第一条是什么？", "祠堂是什么时候建的？", "请问严氏家训有哪些？", "你好！")
RETRY_SECONDS = 0.05
TIMEOUT_SECONDS = 30.0
MAX_PAUSE_SECONDS = 0.1
HOT_SESSION = "hot"


class SimulatedUsers:
    """All simulated users, and an event for each answer.

    Attributes:
        answered_event: set at each answer.
    """

    def __init__(self, users: Sequence["SimulatedUser"], answered_event: asyncio.Event) -> None:
        self._users = users
        self.answered_event = answered_event

    def __iter__(self) -> Iterator["SimulatedUser"]:
        return iter(self._users)

    @property
    def answered(self) -> list[Answered]:
        """All recorded answers."""
        return [each for user in self for each in user.answered]

    async def next_answer(self) -> None:
        """Wait for the next answer to any user."""
        self.answered_event.clear()
        await self.answered_event.wait()

    async def next_answer_of_each(self) -> None:
        """Wait until each user has received another answer."""
        before = [len(user.answered) for user in self]
        while any(len(user.answered) == count for user, count in zip(self, before, strict=True)):
            await self.next_answer()

    def __str__(self) -> str:
        """Summary of answers and retries."""
        retries: Counter[str] = Counter()
        for user in self:
            retries.update(user.retries)
        longest_wait = max(user.longest_wait for user in self)
        return f"{len(self.answered)} answers, longest wait {longest_wait:.1f} s, retries: {dict(retries)}"


class SimulatedUser:
    """Asks one question after another in one session; each is retried until it is answered.

    Args:
        client: the HTTP client.
        urls: base URLs of the services; on failure, the next one is tried.
        name: prefix of its idempotency keys.
        session_id: its session.
        answered_event: set at each answer.
        events: stream half of the answers, and disconnect in the middle of some.

    Attributes:
        answered: the recorded answers.
        retries: number of retries, by reason.
        longest_wait: the longest wait for an answer, in seconds.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        urls: Sequence[str],
        name: str,
        session_id: str,
        *,
        answered_event: asyncio.Event,
        events: bool,
    ) -> None:
        self._client = client
        self._urls = urls
        self._name = name
        self._session_id = session_id
        self._answered_event = answered_event
        self._events = events
        self._number = 0
        self._url = random.randrange(len(urls))  # noqa: S311 — another one in each run
        self.answered: list[Answered] = []
        self.retries: Counter[str] = Counter()
        self.longest_wait = 0.0

    async def ask_until(self, stop: asyncio.Event) -> None:
        """Ask until ``stop`` is set; the last question is answered too."""
        while not stop.is_set():
            await self.ask()
            await asyncio.sleep(random.random() * MAX_PAUSE_SECONDS)  # noqa: S311

    async def ask(self) -> None:
        """Ask once, with retries; sometimes with two concurrent requests."""
        self._number += 1
        key = f"{self._name}-{self._number}"
        query = f"{random.choice(QUESTIONS)} {key}"  # noqa: S311
        times = 2 if random.random() < 0.1 else 1  # noqa: S311
        began = time.monotonic()
        answers = await asyncio.gather(*(self._until_answered(key, query) for _ in range(times)))
        self.longest_wait = max(self.longest_wait, time.monotonic() - began)
        self.answered += [Answered(key, query, answer) for answer in answers]
        self._answered_event.set()

    async def _until_answered(self, key: str, query: str) -> Json:
        body = {"session_id": self._session_id, "npc_id": NPC, "query": query}
        headers = {"Idempotency-Key": key, "X-User-ID": "visitor"}
        at = self._url
        while True:
            url = self._urls[at % len(self._urls)] + CHAT
            try:
                if self._events and random.random() < 0.5:  # noqa: S311
                    answer = await self._streamed(url, body, headers)
                else:
                    answer = await self._plain(url, body, headers)
            except httpx.TransportError as failure:
                answer = None
                self.retries[type(failure).__name__] += 1
            if answer is not None:
                return answer
            at += 1
            self._url = at
            await asyncio.sleep(RETRY_SECONDS)

    async def _plain(self, url: str, body: Json, headers: dict[str, str]) -> Json | None:
        response = await self._client.post(url, json=body, headers=headers)
        return self._checked(response.status_code, response.json(), dict(response.headers))

    async def _streamed(self, url: str, body: Json, headers: dict[str, str]) -> Json | None:
        """The streamed answer; None if the user disconnects or the stream is cut off."""
        disconnect_after = random.choice((1, 3, 1_000, 1_000))  # noqa: S311
        async with self._client.stream("POST", url, json={**body, "stream": True}, headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                await response.aread()
                return self._checked(response.status_code, response.json(), dict(response.headers))
            seen = 0
            async for kind, data in events(response):
                seen += 1
                if kind == "done":
                    return data
                if kind == "error":
                    return self._checked(data["status"], data, {"retry-after": "0"})
                if seen >= disconnect_after:
                    self.retries["disconnected"] += 1
                    return None
        self.retries["cut off"] += 1
        return None

    def _checked(self, status: int, answer: Json, headers: dict[str, str]) -> Json | None:
        """The answer, or None for a 503 with Retry-After; fails for any other status."""
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            assert "retry-after" in headers
            self.retries[answer["type"]] += 1
            return None
        assert status == httpx.codes.OK, answer
        return answer


async def events(response: httpx.Response) -> AsyncIterator[tuple[str, Json]]:
    """The server-sent events of a response, as kind and data."""
    kind = ""
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield kind, json.loads(line.removeprefix("data: "))


@asynccontextmanager
async def simulated_users(urls: Sequence[str], *, own: int, hot: int) -> AsyncIterator[SimulatedUsers]:
    """Users who ask continuously until the context ends: ``own`` with their own sessions, ``hot`` sharing one.

    At exit, each waits for its pending answer.
    """
    stop, answered_event, name = asyncio.Event(), asyncio.Event(), token_hex(4)
    sessions = [f"talk-{number}" for number in range(own)] + [HOT_SESSION] * hot
    async with AsyncExitStack() as clients, asyncio.TaskGroup() as tasks:
        users = []
        for number, session_id in enumerate(sessions):
            # Users without keep-alive connections reach a different worker each time.
            limits = httpx.Limits(max_keepalive_connections=number % 2)
            client = httpx.AsyncClient(limits=limits, timeout=TIMEOUT_SECONDS, trust_env=False)
            await clients.enter_async_context(client)
            users.append(
                SimulatedUser(
                    client, urls, f"{name}-{number}", session_id, answered_event=answered_event, events=number % 3 == 0
                )
            )
        for user in users:
            tasks.create_task(user.ask_until(stop))
        try:
            yield SimulatedUsers(users, answered_event)
        finally:
            stop.set()
