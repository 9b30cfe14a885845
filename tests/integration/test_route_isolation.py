"""On every route, resources of another scope look absent; the table is checked against the routes.

A route with a path parameter but without a row here fails the test.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from http_service import Service, documented_operations, open_service
from test_http_registry import body_of

OWNER = {"X-Tenant-ID": "t1", "X-Site-ID": "s1", "X-User-ID": "u1"}
OTHERS = {
    "user": OWNER | {"X-User-ID": "u2"},
    "site": OWNER | {"X-Site-ID": "s2"},
    "tenant": OWNER | {"X-Tenant-ID": "t2"},
    "anonymous": {},
}
IDS = {
    "session_id": ("own-session", "no-session"),
    "trace_id": ("own-trace", "no-trace"),
    "npc_id": ("doctor", "no-doctor"),
    "number": ("1", "1"),
    "evidence_id": ("own-evidence", "no-evidence"),
}
"""Path parameter → an id of the owner, and an unused id."""


class Row(NamedTuple):
    """A call that succeeds for the owner; ``shared`` resources belong to the whole site."""

    body: dict[str, Any] | None = None
    shared: bool = False
    status: int = 200


MESSAGE = {"role": "user", "content": "hello"}
VERSIONS = {
    ("get", "/{npc_id}"): Row(shared=True),
    ("get", "/{npc_id}/versions"): Row(shared=True),
    ("get", "/{npc_id}/versions/{number}"): Row(shared=True),
    ("post", "/{npc_id}/set-active"): Row({"number": 1}, shared=True),
    ("delete", "/{npc_id}/versions/{number}"): Row(shared=True, status=409),
}
ROWS = {
    ("get", "/api/v1/npc/sessions/{session_id}"): Row(),
    ("delete", "/api/v1/npc/sessions/{session_id}"): Row(),
    ("put", "/api/v1/npc/sessions/{session_id}/preference"): Row({"tone": "casual"}),
    ("get", "/api/v1/npc/traces/{trace_id}"): Row(),
    ("post", "/api/v1/npc/traces/{trace_id}/replay"): Row(),
    ("put", "/v1/traces/{trace_id}/feedback"): Row({"rating": "up"}),
    ("delete", "/v1/traces/{trace_id}/feedback"): Row(),
    ("get", "/v1/sessions/{session_id}"): Row(),
    ("patch", "/v1/sessions/{session_id}"): Row({"title": "New"}),
    ("delete", "/v1/sessions/{session_id}"): Row(),
    ("post", "/v1/sessions/{session_id}/messages"): Row({"messages": [MESSAGE]}, status=201),
    ("get", "/v1/sessions/{session_id}/messages"): Row(),
    ("post", "/v1/sessions/{session_id}/context"): Row({"query": "hello"}),
    ("get", "/v1/sessions/{session_id}/export"): Row(),
    ("get", "/v1/sessions/{session_id}/summaries"): Row(),
    ("get", "/v1/sessions/{session_id}/state"): Row(),
    ("patch", "/v1/sessions/{session_id}/state"): Row({"current_customer_id": "C-1"}),
    ("delete", "/v1/sessions/{session_id}/state"): Row(),
    ("get", "/v1/sessions/{session_id}/state/changes"): Row(),
    ("post", "/v1/sessions/{session_id}/understand"): Row({"query": "hello"}),
    ("get", "/api/v1/evidence/{evidence_id}"): Row(shared=True),
    ("delete", "/api/v1/evidence/{evidence_id}"): Row(shared=True),
    **{(method, f"/api/v1/personas{path}"): row for (method, path), row in VERSIONS.items()},
    **{(method, f"/api/v1/prompts{path}"): row for (method, path), row in VERSIONS.items()},
}
USER = "/v1/users/{user_id}"
"""The id is a user's own name, which every scope has; it has a test of its own."""

ROUTES = [(method, path) for method, path in documented_operations() if "{" in path and not path.startswith(USER)]
LISTS = {
    "/v1/sessions": "sessions",
    "/v1/threads": "threads",
    "/api/v1/npc/traces": "traces",
    "/api/v1/evidence": "evidence",
    "/api/v1/prompts": "versions",
}
"""List routes of resources that only the owner's site or user has → the field with the items."""


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service in which the owner has one resource of each kind."""
    async with open_service(tmp_path) as opened:
        owner = opened.client_of(**OWNER)
        chat = {"npc_id": "doctor", "query": "你好", "session_id": "own-session"}
        evidence = {"evidence": [{"text": "The bell was cast in 1651.", "evidence_id": "own-evidence"}]}
        made = [
            await owner.post("/api/v1/personas", json=body_of("personas", "你是村医。")),
            await owner.post("/api/v1/prompts", json=body_of("prompts", "说话要慢。")),
            await owner.post("/api/v1/evidence", json=evidence),
            await owner.post("/api/v1/npc/chat", json=chat, headers={"X-Trace-ID": "own-trace"}),
        ]
        assert [response.status_code for response in made] == [201, 201, 200, 200]
        yield opened


async def call(service: Service, method: str, path: str, which: int, headers: dict[str, str]) -> httpx.Response:
    """The route called with the owner's ids (0) or with absent ones (1)."""
    url = path.format(**{placeholder: ids[which] for placeholder, ids in IDS.items()})
    client = service.client_of(**headers)
    return await client.request(method.upper(), url, json=ROWS[method, path].body)


def test_every_route_with_an_id_has_a_row() -> None:
    """And every row has a route."""
    assert set(ROUTES) == set(ROWS)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_foreign_resources_are_indistinguishable_from_absent_ones(
    service: Service, method: str, path: str
) -> None:
    """Status, headers and body are identical; the owner's resource is unchanged and the owner succeeds afterwards."""
    row = ROWS[method, path]
    strangers = {who: headers for who, headers in OTHERS.items() if not (row.shared and who == "user")}
    for who, headers in strangers.items():
        foreign = await call(service, method, path, 0, headers)
        absent = await call(service, method, path, 1, headers)
        assert foreign.status_code == 404, (who, foreign.text)
        assert foreign.content == absent.content, who
        assert foreign.headers == absent.headers, who
    mine = await call(service, method, path, 0, OWNER)
    assert mine.status_code == row.status, mine.text


@pytest.mark.parametrize(("method", "path"), [route for route, row in ROWS.items() if row.shared])
async def test_site_resources_are_shared_by_its_users(service: Service, method: str, path: str) -> None:
    """Personas, prompts and evidence are shared by the site."""
    response = await call(service, method, path, 0, OTHERS["user"])
    assert response.status_code == ROWS[method, path].status


@pytest.mark.parametrize("path", LISTS)
async def test_lists_and_search_give_a_stranger_nothing(service: Service, path: str) -> None:
    """The owner's list has one item, a stranger's none."""
    assert len((await service.client_of(**OWNER).get(path)).json()[LISTS[path]]) == 1
    for who in ("site", "tenant"):
        stranger = service.client_of(**OTHERS[who])
        assert (await stranger.get(path)).json()[LISTS[path]] == []
        found = await stranger.post("/api/v1/evidence/search", json={"query": "When was the bell cast?"})
        assert found.json()["passages"] == []


@pytest.mark.parametrize("who", OTHERS)
async def test_usage_of_a_foreign_session_is_not_found(service: Service, who: str) -> None:
    """A foreign session in the query looks absent, as in a path; the owner gets the usage."""
    stranger = service.client_of(**OTHERS[who])
    foreign, absent = [await stranger.get("/v1/usage", params={"session_id": each}) for each in IDS["session_id"]]
    assert (foreign.status_code, foreign.content, foreign.headers) == (404, absent.content, absent.headers)
    mine = await service.client_of(**OWNER).get("/v1/usage", params={"session_id": "own-session"})
    assert mine.json()["session"]["session_id"] == "own-session"


@pytest.mark.parametrize("who", OTHERS)
async def test_a_question_in_a_foreign_session_creates_a_new_one(service: Service, who: str) -> None:
    """The answer has another session id, and the owner's transcript has not grown."""
    body = {"npc_id": "ancestor_yan", "query": "你好", "session_id": "own-session"}
    answer = await service.client_of(**OTHERS[who]).post("/api/v1/npc/chat", json=body)
    assert answer.status_code == 200
    if who == "user":
        assert answer.json()["session_id"] != "own-session"
    mine = await service.client_of(**OWNER).get("/v1/sessions/own-session/messages")
    assert len(mine.json()["messages"]) == 2


async def test_an_erasure_and_an_export_reach_no_other_scope(service: Service) -> None:
    """Another user is not found; the same id in another site or tenant has other data."""
    own, absent = USER.format(user_id="u1"), USER.format(user_id="no-user")
    for method, path in (("DELETE", ""), ("GET", "/export")):
        stranger = service.client_of(**OTHERS["user"])
        refused = [await stranger.request(method, user + path) for user in (own, absent)]
        assert [response.status_code for response in refused] == [404, 404]
        assert refused[0].content == refused[1].content
    for who in ("site", "tenant"):
        exported = await service.client_of(**OTHERS[who]).get(f"{own}/export")
        assert (exported.status_code, exported.content) == (200, b""), who
        erased = await service.client_of(**OTHERS[who]).delete(own)
        assert (erased.status_code, erased.json()["erased"]) == (200, []), who
    assert (await service.client_of(**OWNER).get("/v1/sessions/own-session")).status_code == 200
    exported = await service.client_of(**OWNER).get(f"{own}/export", params={"traces": True})
    assert [json.loads(line)["type"] for line in exported.text.splitlines()] == [
        "session",
        "message",
        "message",
        "trace",
    ]
    mine = await service.client_of(**OWNER).delete(own)
    assert {item["what"]: item["count"] for item in mine.json()["erased"]}["messages"] == 2
    assert (await service.client_of(**OWNER).get("/v1/sessions/own-session")).status_code == 404
