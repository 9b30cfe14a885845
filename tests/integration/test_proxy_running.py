"""The door of the deployment as it ships: how it passes things on, fails, reads keys, and what it keeps back."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest
from http_service import listening, settings_in
from proxied import ALICE, EDITOR, KEYS, client_of, is_problem, sent, status_of

from caddy_server import CADDYFILE, CaddyServer, Certificate, caddy
from deployment import services
from scripted_model import ScriptedModel
from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("proxy")

BODY_LIMIT = 21 * 2**20
NOBODY = "http://127.0.0.1:9"
"""Where nothing listens."""


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """What the proxy shows."""
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture
def started(certificate: Certificate, tmp_path: Path) -> Iterator[Callable[..., CaddyServer]]:
    """Starts a proxy of the test's own: in front of what, and with which keys."""
    with ExitStack() as running:

        def start(service: str, keys: str = KEYS) -> CaddyServer:
            folder = tmp_path / "proxy"
            folder.mkdir()
            server = CaddyServer(service, folder, certificate, keys=keys)
            running.callback(server.stop)
            return server

        yield start


@pytest.fixture
def started_in_vain(started: Callable[..., CaddyServer]) -> CaddyServer:
    """A proxy in front of nothing."""
    return started(NOBODY)


@asynccontextmanager
async def standing_in(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """The address of a server that treats every connection so; they have ended when the context has."""
    serving: set[asyncio.Task[None]] = set()

    async def whole(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.create_task(whole(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        await asyncio.gather(*serving)


async def test_the_key_goes_no_further(started: Callable[..., CaddyServer]) -> None:
    """What reaches Wenmai has the scope and not the key; what is not about scope is passed on."""
    heads: list[str] = []

    async def noted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")

    async with standing_in(noted) as service:
        answered = await asyncio.to_thread(sent, started(service), "/v1/sessions", "X-Trace-ID: t-1", "X-User-ID: bob")
    assert status_of(answered) == 204
    (head,) = heads
    assert ALICE not in head
    fields = [line.lower().partition(": ") for line in head.splitlines() if line.lower().startswith("x-")]
    said = {name: value for name, _, value in fields if not name.startswith("x-forwarded-")}
    assert said == {"x-tenant-id": "acme", "x-site-id": "shop", "x-user-id": "alice", "x-trace-id": "t-1"}


async def test_events_come_while_the_turn_is_running(started: Callable[..., CaddyServer], tmp_path: Path) -> None:
    """The first events are there while the model still keeps its answer; the last when it has given it."""
    script, answers = ScriptedModel(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def held(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers.wait()
        await script.serve(reader, writer)

    def first_then_the_others(proxy: CaddyServer) -> list[str]:
        body = {"npc_id": "ancestor_yan", "query": "请问严氏家训有哪些？", "session_id": "s1", "stream": True}
        with client_of(proxy, ALICE) as client, client.stream("POST", "/api/v1/npc/chat", json=body) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            assert "content-length" not in answer.headers
            lines = answer.iter_lines()
            assert next(lines) == "event: start"
            loop.call_soon_threadsafe(answers.set)
            return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]

    async with standing_in(held) as model:
        script.base_url = f"{model}/v1"
        with listening(serve_app(settings_in(tmp_path, **script.settings))) as service:
            names = await asyncio.to_thread(first_then_the_others, started(service))
    assert names[-1] == "done"
    assert "token" in names


async def test_bodies_have_a_limit(started: Callable[..., CaddyServer]) -> None:
    """One that is larger, said to be or not, gets 413, and no more than the limit goes further."""
    received: list[int] = []

    async def swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = len(received)
        received.append(0)
        while part := await reader.read(65536):
            received[connection] += len(part)

    def pieces() -> Iterator[bytes]:
        for _ in range(BODY_LIMIT // 65536 + 1):
            yield b"x" * 65536

    async with standing_in(swallow) as service:
        with client_of(started(service), EDITOR) as client:
            for body in (b"x" * (BODY_LIMIT + 1), pieces()):
                answered = await asyncio.to_thread(client.post, "/api/v1/evidence/files", content=body)
                assert is_problem(answered, 413)
    assert len(received) == 2
    assert max(received) < BODY_LIMIT + 2**20


def test_service_that_is_down_is_told(started_in_vain: CaddyServer) -> None:
    """502 as a problem that says when to come again; the probes fail, and nobody comes in without a key meanwhile."""
    with client_of(started_in_vain, ALICE) as client:
        answered = client.get("/v1/sessions")
    assert is_problem(answered, 502)
    assert int(answered.headers["retry-after"]) > 0
    assert "127.0.0.1" not in answered.text
    assert httpx.get(f"{started_in_vain.operators_url}/healthz", trust_env=False).status_code == 502
    with client_of(started_in_vain) as client:
        assert is_problem(client.get("/v1/sessions"), 401)


@pytest.mark.parametrize("keys", ["", CADDYFILE.with_name("keys.map.example").read_text(encoding="utf-8")])
def test_without_lines_nobody_comes_in(started: Callable[..., CaddyServer], keys: str) -> None:
    """An empty file, and the example that ships, which holds comments alone."""
    with client_of(started(NOBODY, keys), ALICE) as client:
        assert is_problem(client.get("/v1/sessions"), 401)


def test_keys_are_read_again_without_a_restart(started_in_vain: CaddyServer) -> None:
    """After the signal a new key opens and one that was taken out does not; a file that is not one changes nothing."""
    newer = "d" * 64
    changes = (
        (f"{newer} acme shop bob talk\n", "successfully"),
        (f"{ALICE} acme shop alice talk extra\n", "failed to"),
    )
    for keys, outcome in changes:
        started_in_vain.reload(keys, expected=f"{outcome} reload")
        for key, status in ((ALICE, 401), (newer, 502)):
            with client_of(started_in_vain, key) as client:
                assert client.get("/v1/sessions").status_code == status


def test_log_tells_neither_keys_nor_what_was_asked(started_in_vain: CaddyServer) -> None:
    """A line for each request with tenant and status; no path, query, header or address, not even with an error."""
    with client_of(started_in_vain, ALICE, X_User_ID="visitor-9") as client:
        client.get("/v1/sessions/secret-session?interest_tag=secret-tag")
    httpx.get(f"{started_in_vain.operators_url}/healthz", trust_env=False)
    started_in_vain.stop()
    lines = [json.loads(line) for line in started_in_vain.logged().splitlines()]
    (line,) = (line for line in lines if line["msg"] == "handled request")
    assert any("connection refused" in line["msg"] for line in lines)
    assert (line["tenant"], line["status"]) == ("acme", 502)
    assert not re.search("secret-|aaaa|visitor-9|remote_ip|uri", started_in_vain.logged())


def test_nothing_is_written_and_nobody_is_asked(started_in_vain: CaddyServer, tmp_path: Path) -> None:
    """No API to change it, no certificates from elsewhere, no QUIC; and it writes no file, so it needs no folder."""
    with client_of(started_in_vain, ALICE) as client:
        client.get("/v1/sessions")
    assert {path.name for path in started_in_vain.log.parent.iterdir()} == {"caddy.log", "keys.map"}
    environment = _shipped(started_in_vain.certificate, tmp_path)
    adapted = json.loads(caddy("adapt", "--config", CADDYFILE, folder=tmp_path, **environment).stdout)
    assert adapted["admin"] == {"disabled": True, "config": {"persist": False}}
    servers = adapted["apps"]["http"]["servers"].values()
    assert all(server["automatic_https"] == {"disable": True} for server in servers)
    assert all(server["protocols"] == ["h1", "h2"] for server in servers)
    tls = adapted["apps"]["tls"]
    assert tls["disable_ocsp_stapling"] is True
    assert tls["disable_storage_check"] is True
    assert set(tls["certificates"]) == {"load_files"}
    assert not any("issuers" in policy for policy in tls["automation"]["policies"])


def test_configuration_is_valid_with_what_the_deployment_sets(certificate: Certificate, tmp_path: Path) -> None:
    """With the addresses of the deployment Caddy takes it without a warning, and would format it as it is."""
    environment = _shipped(certificate, tmp_path)
    checked = caddy("validate", "--config", CADDYFILE, folder=tmp_path, **environment)
    assert checked.returncode == 0, checked.stderr
    said = [json.loads(line) for line in checked.stderr.splitlines() if line.startswith("{")]
    # The certificate of the tests lasts for hours only.
    assert not [line for line in said if line["level"] == "warn" and line["logger"] != "tls"]
    assert caddy("fmt", CADDYFILE, folder=tmp_path).stdout == CADDYFILE.read_text(encoding="utf-8")


def _shipped(certificate: Certificate, folder: Path) -> dict[str, str]:
    """The environment of the deployment, with this certificate and the keys of the example."""
    keys = folder / "keys.map"
    keys.write_text(CADDYFILE.with_name("keys.map.example").read_text(encoding="utf-8"), encoding="utf-8")
    given: dict[str, str] = services()["proxy"]["environment"]
    return {**given, "PROXY_KEYS": str(keys), "PROXY_TLS": str(certificate.folder)}
