"""HTTP service for tests: the real engine on a SQLite file, in this event loop or on a real port."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from support import make_sampled_file
from wenmai.chat.pipeline import Chat
from wenmai.chat.turn import OnEvent, TurnAnswer, TurnEvent, TurnRequest
from wenmai.clock import Clock, system_clock
from wenmai.config.settings import Settings
from wenmai.engine import Engine, load_engine_settings, open_engine
from wenmai.http.app import create_app, serve_app


@cache
def documented_operations() -> list[tuple[str, str]]:
    """Method and path of every operation of the OpenAPI document."""
    paths = serve_app(Settings()).openapi()["paths"]
    return [(method, path) for path, operations in paths.items() for method in operations]


def settings_in(folder: Path, **changes: Any) -> Settings:
    """Settings of a service with its store in ``folder``."""
    return Settings(**{"store": f"sqlite:///{folder / 'wenmai.db'}", "embedder": "none", **changes})


def profile_settings(name: str) -> dict[str, Any]:
    """The settings of a profile, or of several joined by commas; store and embedder are a test's own."""
    values = load_engine_settings(flags={"profile": name}, environment={}).values
    return {key: getattr(values, key) for key in Settings.__struct_fields__ if key not in ("store", "embedder")}


class Service:
    """A service in this event loop.

    Attributes:
        engine, app: its components.
        client: an anonymous user of the default site.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.app = create_app(engine)
        self.client = self.client_of()

    def client_of(self, **headers: str) -> httpx.AsyncClient:
        """A client that sends these headers; underscores become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        transport = httpx.ASGITransport(self.app)
        return httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=named)

    async def ask(self, query: str, **fields: Any) -> Any:
        """The answer of a turn that succeeds."""
        body = {"npc_id": "ancestor_yan", "query": query, **fields}
        answer = await self.client.post("/api/v1/npc/chat", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def create_session(self, **fields: Any) -> str:
        """The id of a new session."""
        created = await self.client.post("/v1/sessions", json=fields)
        assert created.status_code == 201, created.text
        session_id: str = created.json()["session_id"]
        return session_id


class Hold:
    """Pauses every turn at its start, before its question is stored, until ``go`` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waiting = asyncio.Event()
        self.go = asyncio.Event()
        ask = Chat.ask

        async def paused(chat: Chat, request: TurnRequest, *, on_event: OnEvent | None = None) -> TurnAnswer:
            async def paused_event(event: TurnEvent) -> None:
                if on_event is not None:
                    await on_event(event)
                if event.kind == "begin":
                    self.waiting.set()
                    await self.go.wait()

            return await ask(chat, request, on_event=paused_event)

        monkeypatch.setattr(Chat, "ask", paused)


@asynccontextmanager
async def open_service(folder: Path, *, clock: Clock = system_clock, **changes: Any) -> AsyncIterator[Service]:
    """A service for the duration of the context; running turns are completed at exit."""
    settings = settings_in(folder, **changes)
    if not {"profile", "sample_sites", "embedder"} & changes.keys():
        await asyncio.to_thread(make_sampled_file, folder / "wenmai.db")
    async with open_engine(settings, clock=clock) as engine:
        service = Service(engine)
        async with service.app.router.lifespan_context(service.app), service.client:
            yield service


@contextmanager
def listening(app: FastAPI) -> Iterator[str]:
    """The URL of the application in uvicorn, on a free loopback port and in its own thread."""
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    ready = threading.Event()
    begin = server.startup

    async def startup(sockets: Any = None) -> None:
        try:
            await begin(sockets)
        finally:
            ready.set()

    server.startup = startup  # type: ignore[method-assign]
    thread = threading.Thread(target=server.run, name="uvicorn")
    thread.start()
    try:
        assert ready.wait(30)
        assert server.started
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
