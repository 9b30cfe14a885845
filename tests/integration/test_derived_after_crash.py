"""Processes killed between a message and what is derived from it: after a restart it appears by itself."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from cli_process import SECONDS, environment
from program import Program
from service_process import ServiceProcess, kill

from postgres_server import PostgresServer
from scripted_model import ScriptedModel, scripted_model
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents
from wenmai.stores.opening import open_store
from wenmai.stores.records import Preferences, Session

pytestmark = pytest.mark.xdist_group("postgresql")

USER = Scope("default", "default", "visitor")
QUESTION = "When was the ancestral hall of the Yan clan built?"
WISH = "Please answer in more detail"
TITLE = "Yan Ancestral Hall Built"
LIMIT_SECONDS = 60.0

IMPORT_AND_DIE = """
import asyncio, os, signal, sys
from pathlib import Path
from wenmai.cli.memory import memory_from_settings
from wenmai.config.settings import Settings
from wenmai.interchange import import_files
from wenmai.scope import Scope

async def main():
    async with memory_from_settings(Settings(store=sys.argv[1], model="openai:scripted")) as memory:
        await import_files(memory, Scope(*sys.argv[3:]), [Path(sys.argv[2])])
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
"""An import that is killed right after its last message."""


class Services:
    """Starts a service over the store with the scripted model, again and again."""

    def __init__(self, url: str, log: Path) -> None:
        self._url = url
        self._log = log
        self._started: list[ServiceProcess] = []

    async def start(self, script: ScriptedModel) -> ServiceProcess:
        """Start one."""
        settings = {f"WENMAI_{name.upper()}": str(value) for name, value in script.settings.items()}
        service = await asyncio.to_thread(ServiceProcess, "--store", self._url, log=self._log, **settings)
        self._started.append(service)
        return service

    def remove(self) -> None:
        """Kill those that still run."""
        for service in self._started:
            service.remove()


@contextmanager
def services_over(place: str, folder: Path) -> Iterator[Services]:
    """Starts services over the store; their log is in the folder."""
    started = Services(place, folder / "log")
    try:
        yield started
    finally:
        started.remove()


async def chat(service: ServiceProcess, script: ScriptedModel) -> str:
    """A session whose turns are answered, and whose title the model has begun; its id."""
    async with httpx.AsyncClient(base_url=service.url, headers={"X-User-ID": "visitor"}, trust_env=False) as client:
        session_id = None
        for query in (QUESTION, WISH):
            body = {"npc_id": "ancestor_yan", "query": query, "session_id": session_id}
            answer = await client.post("/api/v1/npc/chat", json=body, timeout=LIMIT_SECONDS)
            assert answer.status_code == 200, answer.text
            session_id = answer.json()["session_id"]
    await asyncio.wait_for(script.title_wanted.wait(), LIMIT_SECONDS)
    assert isinstance(session_id, str)
    return session_id


async def write_plainly(service: ServiceProcess) -> str:
    """A session that was written through the plain API; its id."""
    async with httpx.AsyncClient(base_url=service.url, headers={"X-User-ID": "visitor"}, trust_env=False) as client:
        created = await client.post("/v1/sessions", json={})
        session_id: str = created.json()["session_id"]
        messages = [{"role": "user", "content": text} for text in (QUESTION, WISH)]
        appended = await client.post(f"/v1/sessions/{session_id}/messages", json={"messages": messages})
        assert appended.status_code == 201, appended.text
    return session_id


def import_and_die(url: str, folder: Path) -> str:
    """A session that was imported by a process that was killed afterwards; its id."""
    lines = [
        json.dumps({"session_id": "imported", "role": "user", "content": text, "timestamp": "2019-05-01T10:00:00Z"})
        for text in (QUESTION, WISH)
    ]
    file = folder / "talk.jsonl"
    file.write_text("\n".join(lines), encoding="utf-8")
    program = folder / "import_and_die.py"
    program.write_text(IMPORT_AND_DIE, encoding="utf-8")
    assert Program([str(program), url, str(file), *USER], env=environment()).wait(SECONDS) == -9
    return "imported"


async def derived_of(documents: Documents, session_id: str) -> tuple[str, str, str]:
    """Title, who made it, and the inferred verbosity."""
    session = await documents.get(USER, Session, session_id)
    assert session is not None
    preferences = await documents.get(USER, Preferences, session_id)
    return session.record.title, session.record.title_by, preferences.record.verbosity if preferences else ""


async def test_titles_and_preferences_appear_after_a_kill(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """Of sessions that were chatted in, written through the plain API, and imported, without a further request.

    On both stores at the same time, because most of it is waiting.
    """
    places = {"sqlite": f"sqlite:///{tmp_path}/wenmai.db", "postgresql": postgres_server.store()}
    async with asyncio.TaskGroup() as stores:
        for name, place in places.items():
            (tmp_path / name).mkdir()
            stores.create_task(titles_and_preferences_appear(place, tmp_path / name), name=name)


async def titles_and_preferences_appear(place: str, folder: Path) -> None:
    """The same on one store."""
    with services_over(place, folder) as services:
        async with scripted_model() as script:
            script.titles.clear()
            service = await services.start(script)
            sessions = [await chat(service, script), await write_plainly(service)]
            kill(service.pid)
            sessions.append(await asyncio.to_thread(import_and_die, place, folder))
            async with open_store(place) as store:
                assert store.documents is not None
                left = [await derived_of(store.documents, session_id) for session_id in sessions]
                assert [by for _, by, _ in left] == ["", "", ""]
                assert [verbosity for _, _, verbosity in left[1:]] == ["", ""]
                script.titles.set()
                await services.start(script)
                async with asyncio.timeout(LIMIT_SECONDS):
                    for session_id in sessions:
                        while await derived_of(store.documents, session_id) != (TITLE, "model", "detailed"):  # noqa: ASYNC110
                            await asyncio.sleep(0.1)
        assert "derived memory is behind" in (folder / "log").read_text(encoding="utf-8")
