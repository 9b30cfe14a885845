"""Host and Origin checks: cross-site requests and other hosts are rejected; programs and own pages are served."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from http_service import Service, open_service

from wenmai.config.settings import Settings
from wenmai.http.app import serve_app

ALLOWED = ("wenmai.example", "localhost:3000")
PAGES = ("/", "/docs", "/docs/swagger-ui.css", "/openapi.json")
FILE = "/api/v1/evidence/files?name=a.jsonl"


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file with two allowed hosts."""
    async with open_service(tmp_path, allowed_hosts=ALLOWED) as opened:
        yield opened


def routes() -> list[tuple[str, str]]:
    """Every method and path, the pages included."""
    paths = serve_app(Settings()).openapi()["paths"]
    api = [(method.upper(), re.sub(r"\{[^}]+\}", "1", path)) for path, methods in paths.items() for method in methods]
    return [*api, *(("GET", page) for page in PAGES)]


def is_problem(response: httpx.Response, status: int, slug: str) -> bool:
    """Whether the response is this problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    return (response.status_code, response.json()["type"]) == (status, f"urn:problem:wenmai:{slug}")


async def test_another_host_is_refused_on_every_route(service: Service) -> None:
    """421 on pages and routes: DNS rebinding neither reads nor writes."""
    for method, path in routes():
        answered = await service.client.request(method, path, headers={"Host": "evil.example"})
        assert is_problem(answered, 421, "misdirected"), (method, path)
    unknown = await service.client.get("/nowhere", headers={"Host": "evil.example"})
    assert is_problem(unknown, 421, "misdirected")


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8001",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:127.0.0.1",
        "user@localhost",
        "192.168.1.5",
        "0.0.0.0",  # noqa: S104 — to be refused
        "[::2]:8001",
        "[::1]evil.example",
        "localhost, evil.example",
    ],
)
async def test_names_that_look_like_loopback_are_refused(service: Service, host: str) -> None:
    """The whole name is compared."""
    assert is_problem(await service.client.get("/v1/sessions", headers={"Host": host}), 421, "misdirected")


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST:8001", "127.0.0.1:8001", "127.9.9.9", "[::1]:8001", "wenmai.example", "Wenmai.Example:1"],
)
async def test_loopback_and_allowed_names_are_served(service: Service, host: str) -> None:
    """With a port or without."""
    assert (await service.client.get("/v1/sessions", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("hosts", [[], ["localhost", "localhost"], ["localhost", "evil.example"]])
async def test_there_is_exactly_one_host(service: Service, hosts: list[str]) -> None:
    """None or two are invalid HTTP; two servers could read different ones."""
    answers: list[int] = []

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.start":
            answers.append(int(str(message["status"])))

    headers = [(b"host", host.encode()) for host in hosts]
    path = {"path": "/healthz", "raw_path": b"/healthz", "query_string": b"", "root_path": ""}
    scope = {"type": "http", "method": "GET", "http_version": "1.1", "headers": headers, **path}
    await service.app(scope, None, send)  # type: ignore[arg-type] # nothing is received
    assert answers == [400]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:8002"},
        {"Origin": "http://localhost:3000", "Host": "127.0.0.1:8001", "Sec-Fetch-Site": "cross-site", "X": "evil"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
    ],
)
async def test_cross_site_requests_change_nothing(service: Service, headers: dict[str, str]) -> None:
    """403, for any content type, with and without a body."""
    if headers.pop("X", ""):
        headers["Origin"] = "http://localhost:3001"
    given = {"Host": "localhost:8001", "Content-Type": "text/plain", **headers}
    line = b'{"text": "The bell was cast in 1999."}\n'
    assert is_problem(await service.client.post(FILE, content=line, headers=given), 403, "foreign-page")
    assert is_problem(await service.client.post("/api/v1/npc/traces/t/replay", headers=given), 403, "foreign-page")
    assert is_problem(await service.client.delete("/v1/sessions/s", headers=given), 403, "foreign-page")
    assert "The bell was cast" not in (await service.client.get("/api/v1/evidence?limit=500")).text


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://localhost:8001", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "http://localhost:3000", "Sec-Fetch-Site": "same-site"},
        {"Origin": "https://wenmai.example", "Host": "127.0.0.1:8001", "Sec-Fetch-Site": "same-origin"},
        {"Origin": "https://wenmai.example", "Host": "wenmai.example"},
        {"Origin": "https://wenmai.example:8443", "Host": "wenmai.example:8443"},
    ],
)
async def test_programs_and_own_pages_are_served(service: Service, headers: dict[str, str]) -> None:
    """Without these headers, with the own origin, and with an allowed one."""
    given = {"Host": "localhost:8001", **headers}
    created = await service.client.post("/v1/sessions", json={}, headers=given)
    assert created.status_code == 201, created.text


async def test_cross_site_reads_are_rejected_but_links_work(service: Service) -> None:
    """Top-level navigation opens a page; loading it as an image, a script or a frame is rejected."""
    foreign = {"Sec-Fetch-Site": "cross-site"}
    followed = {**foreign, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert (await service.client.get("/docs", headers=followed)).status_code == 200
    for more in (
        {"Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"},
        {},
        {**followed, "Sec-Fetch-Dest": "iframe"},
    ):
        for path in ("/v1/sessions", *PAGES):
            assert is_problem(await service.client.get(path, headers=foreign | more), 403, "foreign-page"), path
