"""Errors are problem details without internals."""

import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException
from http_service import Service, open_service

import wenmai
from wenmai.errors import InvalidInput, StoreUnavailable
from wenmai.http import problems
from wenmai.http.limits import MAX_BODY_BYTES
from wenmai.http.loopback import check_bind_host

JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


def problem(response: httpx.Response, status: int, slug: str) -> dict[str, Any]:
    """The problem's body, after checking the common fields."""
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = response.json()
    assert body["status"] == status
    assert body["type"] == f"urn:problem:wenmai:{slug}"
    assert body["title"]
    assert body["detail"]
    return body


async def test_an_unknown_route_is_a_problem(service: Service) -> None:
    """404, also for a trailing slash."""
    for url in ("/nowhere", "/v1/sessions/", "/api/v1/npc"):
        problem(await service.client.get(url), 404, "no-such-route")


async def test_a_method_that_a_route_does_not_have_is_a_problem(service: Service) -> None:
    """The Allow header has all methods of the path, not only those of its first route."""
    response = await service.client.put("/v1/sessions/s1")
    problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "DELETE, GET, HEAD, PATCH"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b'"text"',
        b"\xff\xfe",
        b'{"title": "\xff"}',
        b'{"title": "\\ud800"}',
        b'{"metadata": {"a": "\\ud800"}}',
        b'{"metadata": {"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b'{"metadata": {"a": ' + b"1" * 5_000 + b"}}",
    ],
)
async def test_json_that_cannot_be_stored_is_rejected(service: Service, body: bytes) -> None:
    """422 instead of 500, and nothing is stored."""
    response = await service.client.post("/v1/sessions", content=body, headers=JSON)
    assert problem(response, 422, "invalid-input")["errors"]
    assert (await service.client.get("/v1/sessions")).json()["sessions"] == []


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_a_body_that_is_not_declared_as_json_is_refused(service: Service, media_type: str) -> None:
    """415: bodies that browsers send cross-site without a preflight are not parsed as JSON."""
    headers = {"Content-Type": media_type} if media_type else {}
    response = await service.client.post("/v1/sessions", content=b"{}", headers=headers)
    assert "application/json" in problem(response, 415, "media-type")["detail"]


@pytest.mark.parametrize("media_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_json_may_be_declared_with_parameters(service: Service, media_type: str) -> None:
    """Media type parameters and case are ignored."""
    response = await service.client.post("/v1/sessions", content=b"{}", headers={"Content-Type": media_type})
    assert response.status_code == 201


async def test_an_optional_body_needs_no_content_type(service: Service) -> None:
    """If the body is omitted."""
    session_id = await service.create_session()
    changed = await service.client.put(f"/api/v1/npc/sessions/{session_id}/preference?verbosity=brief")
    assert changed.status_code == 200


@pytest.mark.parametrize("name", ["X-Tenant-ID", "X-Site-ID", "X-User-ID", "X-Trace-ID", "Idempotency-Key"])
async def test_a_repeated_scope_header_is_rejected(service: Service, name: str) -> None:
    """Even with equal values: another component might read the other one."""
    twice = httpx.Headers([(name, "a"), (name, "a")])
    body = {"npc_id": "ancestor_yan", "query": "你好"}
    response = await service.client.post("/api/v1/npc/chat", json=body, headers=twice)
    assert [each["field"] for each in problem(response, 422, "invalid-input")["errors"]] == [name]


@pytest.mark.parametrize("declared", [True, False])
async def test_a_body_over_the_limit_is_refused(service: Service, declared: bool) -> None:  # noqa: FBT001
    """413, with Content-Length and with chunked encoding."""

    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 100_000 + 1):
            yield b" " * 100_000

    content = b" " * (MAX_BODY_BYTES + 1) if declared else chunks()
    problem(await service.client.post("/v1/sessions", content=content, headers=JSON), 413, "too-large")


async def test_field_names_are_those_of_the_request(service: Service) -> None:
    """Nested fields by path, headers by name; the invalid value is not repeated."""
    secret = "hunter2 " * 3
    response = await service.client.post(
        "/v1/sessions/s1/messages", json={"messages": [{"role": secret, "content": 5}]}, headers={"X-User-ID": "a b"}
    )
    body = problem(response, 422, "invalid-input")
    assert [each["field"] for each in body["errors"]] == ["X-User-ID", "messages[0].role", "messages[0].content"]
    assert "hunter2" not in response.text


PROVOKED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "403": ("GET", "/v1/sessions", {"headers": {"Sec-Fetch-Site": "cross-site"}}),
    "404": ("GET", "/v1/sessions/absent", {}),
    "405": ("PUT", "/v1/sessions", {}),
    "413": ("POST", "/v1/sessions", {"content": b" " * (MAX_BODY_BYTES + 1), "headers": JSON}),
    "415": ("POST", "/v1/sessions", {"content": b"{}", "headers": {"Content-Type": "text/plain"}}),
    "421": ("GET", "/v1/sessions", {"headers": {"Host": "evil.example"}}),
    "422": ("POST", "/api/v1/npc/chat", {"json": {"npc_id": "elder", "query": " "}}),
}
"""Status → a request that is answered with it."""


@pytest.mark.parametrize("status", PROVOKED)
async def test_the_example_of_a_problem_is_the_service_s_answer(service: Service, status: str) -> None:
    """The OpenAPI document shows type, title, detail and fields as they are sent."""
    method, path, request = PROVOKED[status]
    document = service.app.openapi()
    described = document["paths"][path.replace("absent", "{session_id}")].get(method.lower(), {})
    described = described or document["paths"][path]["get"]
    response = described["responses"][status]
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rpartition("/")[2]]
    answer = await service.client.request(method, path, **request)
    assert answer.json() == response["content"]["application/problem+json"]["example"]


async def test_a_store_that_is_down_is_503_with_a_time_to_retry(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is only in the log."""

    async def down(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("sqlite", "disk I/O error in /secret/path", retry_after=7)

    monkeypatch.setattr(service.engine.memory.sessions, "list", down)
    response = await service.client.get("/v1/sessions")
    problem(response, 503, "store-unavailable")
    assert response.headers["retry-after"] == "7"
    assert "secret" not in response.text


async def test_an_unexpected_error_is_500_and_logged(
    service: Service, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The response has no internals; the log has the traceback."""

    async def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(service.engine.memory.sessions, "list", broken)
    with caplog.at_level(logging.ERROR):
        response = await service.client.get("/v1/sessions")
    problem(response, 500, "internal")
    assert "secret" not in response.text
    assert "RuntimeError: secret detail" in caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_loopback_may_be_bound(host: str) -> None:
    """Loopback is reachable from this machine only."""
    check_bind_host(host, "none")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", ""])  # noqa: S104 — to be refused
def test_other_addresses_may_not_be_bound(host: str) -> None:
    """The error says how to authenticate requests; then they may."""
    with pytest.raises(InvalidInput, match="wenmai keys create") as refused:
        check_bind_host(host, "none")
    assert refused.value.field == "host"
    check_bind_host(host, "keys")


async def test_an_application_that_embeds_the_library_answers_its_errors() -> None:
    """An invalid id, an absent session and an unavailable store are problems; other errors are not changed."""
    app = FastAPI()
    problems.install(app)

    @app.get("/own")
    async def own() -> None:
        raise HTTPException(418, "own words")

    @app.get("/down")
    async def down() -> None:
        raise StoreUnavailable("sqlite", "/secret/path", retry_after=7)

    @app.get("/conversations/{session_id}")
    async def append(session_id: str, limit: int = 10) -> int:
        async with wenmai.open("memory://") as memory:
            session = await memory.session(session_id)
            await session.delete()
            await session.append([{"role": "user", "content": "hello"}])
        return limit

    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://application") as client:
        assert (
            problem(await client.get("/conversations/a b"), 422, "invalid-input")["errors"][0]["field"] == "session_id"
        )
        problem(await client.get("/conversations/a"), 404, "not-found")
        unavailable = await client.get("/down")
        problem(unavailable, 503, "store-unavailable")
        assert (unavailable.headers["retry-after"], "secret" in unavailable.text) == ("7", False)
        assert (await client.get("/own")).json() == {"detail": "own words"}
        assert "detail" in (await client.get("/conversations/a?limit=x")).json()
