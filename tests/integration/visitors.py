"""Visitors of services that are killed and restarted: they ask, send again what failed, and remember answers."""

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
AGAIN_SECONDS = 0.05
PATIENCE_SECONDS = 30.0
LONGEST_PAUSE_SECONDS = 0.1
HOT_SESSION = "hot"


class Visitors:
    """All who visit, and when the next of them hears an answer.

    Attributes:
        heard: set at each answer.
    """

    def __init__(self, visitors: Sequence["Visitor"], heard: asyncio.Event) -> None:
        self._visitors = visitors
        self.heard = heard

    def __iter__(self) -> Iterator["Visitor"]:
        return iter(self._visitors)

    @property
    def answered(self) -> list[Answered]:
        """What all of them were told."""
        return [each for visitor in self for each in visitor.answered]

    async def hear(self) -> None:
        """Return at the next answer that any of them gets."""
        self.heard.clear()
        await self.heard.wait()

    async def all_hear(self) -> None:
        """Return when each of them has got another answer."""
        before = [len(visitor.answered) for visitor in self]
        while any(len(visitor.answered) == count for visitor, count in zip(self, before, strict=True)):
            await self.hear()

    def __str__(self) -> str:
        """What they met with, in words."""
        refused: Counter[str] = Counter()
        for visitor in self:
            refused.update(visitor.refused)
        longest = max(visitor.longest for visitor in self)
        return f"{len(self.answered)} answers, longest wait {longest:.1f} s, sent again: {dict(refused)}"


class Visitor:
    """Asks one question after the other in one session, each until it is answered.

    Args:
        client: how it speaks.
        urls: of the services; when one fails, the next is tried.
        name: its keys begin with it.
        session_id: where it talks.
        heard: set at each answer.
        events: take half of the answers as events, and go away in the middle of some.

    Attributes:
        answered: what it was told.
        refused: how often a request failed and was sent again, by reason.
        longest: the longest time until a question was answered, seconds.
    """

    def __init__(
        self,
        client: httpx.AsyncClient,
        urls: Sequence[str],
        name: str,
        session_id: str,
        *,
        heard: asyncio.Event,
        events: bool,
    ) -> None:
        self._client = client
        self._urls = urls
        self._name = name
        self._session_id = session_id
        self._heard = heard
        self._events = events
        self._number = 0
        self._url = random.randrange(len(urls))  # noqa: S311 — another one in each run
        self.answered: list[Answered] = []
        self.refused: Counter[str] = Counter()
        self.longest = 0.0

    async def ask_for_ever(self, stop: asyncio.Event) -> None:
        """Ask until told to stop; the last question is answered too."""
        while not stop.is_set():
            await self.ask()
            await asyncio.sleep(random.random() * LONGEST_PAUSE_SECONDS)  # noqa: S311

    async def ask(self) -> None:
        """Ask once, sending the request again until it is answered; sometimes twice at the same time."""
        self._number += 1
        key = f"{self._name}-{self._number}"
        query = f"{random.choice(QUESTIONS)} {key}"  # noqa: S311
        times = 2 if random.random() < 0.1 else 1  # noqa: S311
        began = time.monotonic()
        answers = await asyncio.gather(*(self._until_answered(key, query) for _ in range(times)))
        self.longest = max(self.longest, time.monotonic() - began)
        self.answered += [Answered(key, query, answer) for answer in answers]
        self._heard.set()

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
                self.refused[type(failure).__name__] += 1
            if answer is not None:
                return answer
            at += 1
            self._url = at
            await asyncio.sleep(AGAIN_SECONDS)

    async def _plain(self, url: str, body: Json, headers: dict[str, str]) -> Json | None:
        response = await self._client.post(url, json=body, headers=headers)
        return self._checked(response.status_code, response.json(), dict(response.headers))

    async def _streamed(self, url: str, body: Json, headers: dict[str, str]) -> Json | None:
        """The answer as events; now and then the visitor goes away after a few of them."""
        leave_after = random.choice((1, 3, 1_000, 1_000))  # noqa: S311
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
                if seen >= leave_after:
                    self.refused["left"] += 1
                    return None
        self.refused["cut off"] += 1
        return None

    def _checked(self, status: int, answer: Json, headers: dict[str, str]) -> Json | None:
        """The answer, None if the service says that it cannot now; anything else is a failed request."""
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            assert "retry-after" in headers
            self.refused[answer["type"]] += 1
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
async def visiting(urls: Sequence[str], *, own: int, hot: int) -> AsyncIterator[Visitors]:
    """Visitors who ask all the time, ``own`` in sessions of their own and ``hot`` in one together, until the end.

    At the end each waits for the answer that it is waiting for.
    """
    stop, heard, name = asyncio.Event(), asyncio.Event(), token_hex(4)
    sessions = [f"talk-{number}" for number in range(own)] + [HOT_SESSION] * hot
    async with AsyncExitStack() as clients, asyncio.TaskGroup() as asking:
        visitors = []
        for number, session_id in enumerate(sessions):
            # Those who keep no connection come to another worker each time.
            limits = httpx.Limits(max_keepalive_connections=number % 2)
            client = httpx.AsyncClient(limits=limits, timeout=PATIENCE_SECONDS, trust_env=False)
            await clients.enter_async_context(client)
            visitors.append(Visitor(client, urls, f"{name}-{number}", session_id, heard=heard, events=number % 3 == 0))
        for visitor in visitors:
            asking.create_task(visitor.ask_for_ever(stop))
        try:
            yield Visitors(visitors, heard)
        finally:
            stop.set()
