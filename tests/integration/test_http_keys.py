"""API keys over HTTP: every route asks for one, and no key reaches beyond its tenant, site, user and rights."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from fastapi.routing import APIRoute
from http_service import Service, documented_operations, settings_in

from wenmai.auth.principal import RIGHTS, Right
from wenmai.engine import open_engine
from wenmai.http.app import ROUTERS
from wenmai.http.authorization import PUBLIC, RIGHT_OF
from wenmai.http.routes import pages

SESSION = "session-of-the-owner"
BODIES: Mapping[tuple[str, str], object] = {
    ("post", "/api/v1/npc/chat"): {"npc_id": "ancestor_yan", "query": "你好"},
    ("post", "/api/query"): {"question": "你好"},
    ("post", "/api/query/stream"): {"question": "你好"},
    ("post", "/api/session-delete"): {"session_id": SESSION},
    ("post", "/v1/sessions"): {},
    ("patch", "/v1/sessions/{session_id}"): {"title": "t"},
    ("post", "/v1/sessions/{session_id}/messages"): {"messages": [{"role": "user", "content": "x"}]},
    ("post", "/v1/sessions/{session_id}/context"): {"query": "x", "budget_tokens": 100},
    ("patch", "/v1/sessions/{session_id}/state"): {"current_customer_id": "x"},
    ("post", "/v1/sessions/{session_id}/understand"): {"text": "x"},
    ("post", "/v1/recall"): {"query": "x", "session_id": SESSION},
    ("post", "/api/v1/evidence/search"): {"query": "x"},
    ("post", "/api/v1/evidence"): {"passages": [{"title": "t", "text": "x"}]},
}
SECRET = "gate is painted blue"  # noqa: S105 — what the owner said


class Keyed(NamedTuple):
    """A service that asks for keys, with a session of ``yan/hall/u1`` in it."""

    service: Service
    owner: str

    async def key(self, *rights: Right, tenant: str = "yan", site: str = "hall", user: str = "u1") -> str:
        """A new key with these rights, by default all, and by default the owner's."""
        text, _ = await self.service.engine.api_keys.create(
            tenant_id=tenant, sites=[site], user_id=user, rights=rights or RIGHTS
        )
        return text

    async def request(
        self, method: str, path: str, key: str, *, session_id: str = SESSION, **headers: str
    ) -> httpx.Response:
        """The response of a route about the session, by default the owner's, with this key."""
        url = re.sub(r"\{[^}]+\}", "absent", path.replace("{session_id}", session_id))
        async with self.service.client_of(authorization=f"Bearer {key}", **headers) as client:
            named = {"session_id": session_id} if path == "/api/conversation-history" else None
            return await client.request(method, url, json=BODIES.get((method, path)), params=named)


@pytest.fixture
async def keyed(tmp_path: Path) -> AsyncIterator[Keyed]:
    """The service, and the owner's key."""
    async with open_engine(settings_in(tmp_path, auth="keys", sample_sites=())) as engine:
        keyed = Keyed(Service(engine), "")
        owner = await keyed.key()
        async with keyed.service.client_of(authorization=f"Bearer {owner}") as client:
            assert (await client.post("/v1/sessions", json={"session_id": SESSION})).status_code == 201
            said = {"messages": [{"role": "user", "content": f"The {SECRET}."}]}
            assert (await client.post(f"/v1/sessions/{SESSION}/messages", json=said)).status_code == 201
        yield keyed._replace(owner=owner)


OPERATIONS = [
    (method, path) for method, path in documented_operations() if path not in {"/healthz", "/readyz", "/", "/docs"}
]


def routes() -> list[APIRoute]:
    """The routes of all routers, in order."""
    return [route for each in (*ROUTERS, pages) for route in each.router.routes if isinstance(route, APIRoute)]


def test_every_route_has_a_right_or_is_public() -> None:
    """A new route is refused until it is listed; nothing is listed that does not exist."""
    assert {route.name for route in routes()} == PUBLIC | set(RIGHT_OF)


async def test_no_route_answers_without_a_valid_key(keyed: Keyed) -> None:
    """No key, another scheme, a mistyped or revoked key, two keys: 401 with the scheme; health answers."""
    revoked = await keyed.key()
    await keyed.service.engine.api_keys.revoke(revoked[4:16])
    for method, path in OPERATIONS:
        for key in ("", "x", keyed.owner[:-1], revoked):
            response = await keyed.request(method, path, key)
            assert (response.status_code, response.headers["WWW-Authenticate"]) == (401, "Bearer"), (method, path, key)
            assert response.json()["type"] == "urn:problem:wenmai:unauthenticated"
    for authorization in ([], [keyed.owner], [f"Basic {keyed.owner}"], [f"Bearer {keyed.owner}"] * 2):
        headers = [("Authorization", each) for each in authorization]
        assert (await keyed.service.client.get("/v1/sessions", headers=headers)).status_code == 401
    for path in ("/healthz", "/readyz", "/docs"):
        assert (await keyed.service.client.get(path)).status_code == 200


async def test_a_key_does_what_its_rights_allow_only(keyed: Keyed) -> None:
    """Each route with all rights but its own is 403; with its own alone it is not."""
    right_of = {
        (method.lower(), route.path_format): RIGHT_OF[route.name]
        for route in routes()
        if route.name in RIGHT_OF
        for method in route.methods or ()
    }
    alone = {right: await keyed.key(right) for right in RIGHTS}
    others = {right: await keyed.key(*(each for each in RIGHTS if each != right)) for right in RIGHTS}
    for method, path in OPERATIONS:
        right = right_of[method, path]
        refused = await keyed.request(method, path, others[right])
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:problem:wenmai:forbidden"), (method, path)
        assert (await keyed.request(method, path, alone[right])).status_code not in {401, 403}, (method, path)


@pytest.mark.parametrize(("rights", "status"), [(("chat", "read"), 403), (("chat", "admin"), 404)])
async def test_a_replay_shows_another_prompt_to_administrators_only(
    keyed: Keyed, rights: tuple[Right, ...], status: int
) -> None:
    """Prompts that are not active are theirs."""
    async with keyed.service.client_of(authorization=f"Bearer {await keyed.key(*rights)}") as client:
        replay = await client.post("/api/v1/npc/traces/absent/replay", json={"prompt_version": 1})
    assert replay.status_code == status


@pytest.mark.parametrize(
    "other", [{"tenant": "wang"}, {"site": "shop"}, {"user": "u2"}], ids=lambda other: next(iter(other))
)
async def test_no_route_shows_the_session_to_another_key(other: dict[str, str], keyed: Keyed) -> None:
    """Of another tenant, site or user: nothing of it, and about the session the same as about an absent one."""
    stranger = await keyed.key(**other)
    for method, path in OPERATIONS:
        response = await keyed.request(method, path, stranger)
        assert SECRET not in response.text
        if "{session_id}" in path:
            absent = await keyed.request(method, path, stranger, session_id="absent")
            assert (response.status_code, response.content) == (absent.status_code, absent.content), (method, path)
    async with keyed.service.client_of(authorization=f"Bearer {keyed.owner}") as owner:
        messages = (await owner.get(f"/v1/sessions/{SESSION}/messages")).json()["messages"]
    assert [message["content"] for message in messages] == [f"The {SECRET}."]


@pytest.mark.parametrize("header", ["X_Tenant_ID", "X_Site_ID", "X_User_ID"])
async def test_headers_do_not_beat_the_key(header: str, keyed: Keyed) -> None:
    """A tenant, site or user that is not the key's is not found, on every route."""
    for method, path in OPERATIONS:
        response = await keyed.request(method, path, keyed.owner, **{header: "default"})
        if "metrics" not in path:
            assert (response.status_code, response.json()["detail"]) == (404, "no such tenant, site or user"), path


async def test_the_body_of_a_turn_does_not_beat_the_key(keyed: Keyed) -> None:
    """The same for the fields of chat."""
    async with keyed.service.client_of(authorization=f"Bearer {keyed.owner}") as client:
        for field in ("tenant_id", "site_id", "user_id"):
            body = {"npc_id": "ancestor_yan", "query": "你好", field: "default"}
            assert (await client.post("/api/v1/npc/chat", json=body)).status_code == 404
        own = {"npc_id": "ancestor_yan", "query": "你好", "tenant_id": "yan", "site_id": "hall", "user_id": "u1"}
        assert (await client.post("/api/v1/npc/chat", json=own)).status_code == 200
        listed = (await client.get("/api/session-list")).json()["sessions"]
        assert SESSION in [each["session_id"] for each in listed]
        assert (await client.get("/api/session-list", params={"user_id": "10000"})).status_code == 404


async def test_a_backends_key_speaks_for_all_users_of_its_tenant(keyed: Keyed) -> None:
    """It names the user, and reads what this one said."""
    text, _ = await keyed.service.engine.api_keys.create(tenant_id="yan", rights=["read"])
    async with keyed.service.client_of(authorization=f"Bearer {text}", X_Site_ID="hall", X_User_ID="u1") as backend:
        assert (await backend.get(f"/v1/sessions/{SESSION}")).status_code == 200
    async with keyed.service.client_of(authorization=f"Bearer {text}", X_Site_ID="hall", X_User_ID="u2") as backend:
        assert (await backend.get(f"/v1/sessions/{SESSION}")).status_code == 404


async def test_a_known_key_is_checked_without_the_store(keyed: Keyed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second check of a key reads nothing."""
    api_keys = keyed.service.engine.api_keys
    await api_keys.principal(keyed.owner)
    monkeypatch.setattr(api_keys, "_documents", None)
    assert (await api_keys.principal(keyed.owner)).user_id == "u1"
