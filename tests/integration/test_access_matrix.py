"""Every route × every kind of caller that may not, over every store: 401, 403, or as if the id did not exist.

The rows are those of the OpenAPI document; a route without a row fails the test.
"""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
from http_service import Service, documented_operations, settings_in
from test_http_registry import body_of
from test_opensearch_store import raw
from test_route_isolation import IDS, ROUTES, ROWS

from identity_provider import AUDIENCE, ISSUER, IdentityProvider
from opensearch_server import OpenSearchServer
from postgres_server import PostgresServer
from redis_server import RedisServer
from wenmai.auth.principal import RIGHTS, Right
from wenmai.engine import open_engine
from wenmai.errors import WenmaiError
from wenmai.http import problems
from wenmai.http.app import ROUTERS
from wenmai.http.authorization import RIGHT_OF
from wenmai.http.routes import pages
from wenmai.interchange import import_files
from wenmai.scope import Scope, ThreadKey

Operation = tuple[str, str]
Ask = Callable[[httpx.AsyncClient, str], Any]

SAID = "The gate is painted blue."
OWNED = Scope("yan", "hall", "u1")
OPEN: frozenset[Operation] = frozenset({("get", "/healthz"), ("get", "/readyz")})

NAMING: Mapping[Operation, tuple[dict[str, str], dict[str, Any] | None]] = {
    ("post", "/api/session-delete"): ({}, {"session_id": "{}"}),
    ("get", "/api/conversation-history"): ({"session_id": "{}"}, None),
    ("get", "/v1/usage"): ({"session_id": "{}"}, None),
    ("post", "/v1/recall"): ({}, {"query": "gate", "session_id": "{}"}),
    ("get", "/api/v1/npc/traces"): ({"session_id": "{}"}, None),
}
"""Routes that name a session in the query or the body → the parameters and the body."""

UNNAMED: Mapping[Operation, Any] = {
    ("post", "/api/v1/npc/chat"): {"npc_id": "doctor", "query": "gate"},
    ("post", "/api/query"): {"question": "gate"},
    ("post", "/api/query/stream"): {"question": "gate"},
    ("get", "/api/session-list"): None,
    ("get", "/api/quick-questions"): None,
    ("get", "/api/assistant"): None,
    ("get", "/api/v1/npc/models"): None,
    ("post", "/api/v1/personas"): body_of("personas", "x"),
    ("get", "/api/v1/personas"): None,
    ("post", "/api/v1/prompts"): body_of("prompts", "x"),
    ("get", "/api/v1/prompts"): None,
    ("post", "/api/v1/evidence"): {"evidence": [{"text": "x"}]},
    ("get", "/api/v1/evidence"): None,
    ("delete", "/api/v1/evidence"): None,
    ("post", "/api/v1/evidence/files"): None,
    ("post", "/api/v1/evidence/search"): {"query": "gate"},
    ("post", "/v1/sessions"): {},
    ("get", "/v1/sessions"): None,
    ("get", "/v1/users/{user_id}/export"): None,
    ("delete", "/v1/users/{user_id}"): None,
    ("get", "/v1/audit"): None,
    ("get", "/v1/audit/status"): None,
    ("get", "/v1/keys"): None,
    ("get", "/v1/threads"): None,
    ("get", "/v1/topics"): None,
    ("get", "/metrics"): None,
}
"""Routes that name none, or a user, whom every scope has → the body."""

NAMES = {
    (method.lower(), route.path_format): route.name
    for each in (*ROUTERS, pages)
    for route in each.router.routes
    for method in getattr(route, "methods", None) or ()
}


@cache
def provider() -> IdentityProvider:
    """The identity provider, whose keys are read from a file."""
    return IdentityProvider(0)


@cache
def forger() -> IdentityProvider:
    """Another one, whose keys have the same ids."""
    return IdentityProvider(0)


def token(**claims: Any) -> str:
    """A valid token of the owner with all rights, but for these claims."""
    return provider().token(**{"scope": " ".join(f"wenmai:{right}" for right in RIGHTS)} | claims)


class Guarded(NamedTuple):
    """A service with a session, a trace, a persona, a prompt and evidence of ``yan/hall/u1``."""

    service: Service
    foreign_export: Path
    owner: str = ""

    async def key(self, *rights: Right, tenant: str = "yan", site: str = "hall", user: str = "u1") -> str:
        """A new key, by default the owner's with all rights."""
        keys = self.service.engine.api_keys
        return (await keys.create(tenant_id=tenant, sites=[site], user_id=user, rights=rights or RIGHTS))[0]

    async def ask(self, operation: Operation, caller: str, which: int, **headers: str) -> httpx.Response:
        """The response of the route about the owner's resource (0) or an absent one (1)."""
        method, path = operation
        named, body = {}, UNNAMED.get(operation)
        if operation in ROWS:
            body = ROWS[operation].body
        if operation in NAMING:
            session_id = IDS["session_id"][which]
            parameters, body = NAMING[operation]
            named = dict.fromkeys(parameters, session_id)
            body = body and {name: session_id if value == "{}" else value for name, value in body.items()}
        ids = {name: each[which] for name, each in IDS.items()} | {"user_id": ("u1", "no-user")[which]}
        if caller:
            headers["Authorization"] = f"Bearer {caller}"
        return await self.service.client.request(method, path.format(**ids), params=named, json=body, headers=headers)

    async def same(self, operation: Operation, caller: str, **headers: str) -> httpx.Response:
        """The response about the owner's resource, which must be that about an absent one."""
        foreign = await self.ask(operation, caller, 0, **headers)
        absent = await self.ask(operation, caller, 1, **headers)
        assert (foreign.status_code, foreign.content) == (absent.status_code, absent.content), (operation, headers)
        assert foreign.headers == absent.headers, (operation, headers)
        assert "gate is painted" not in foreign.text
        return foreign


@asynccontextmanager
async def guarded(folder: Path, **changes: Any) -> AsyncIterator[Guarded]:
    """The service over a store."""
    (folder / "keys.json").write_text(json.dumps(provider().jwks), encoding="utf-8")
    planted = {"session_id": "own-session", "npc_id": "doctor", "role": "user", "content": "planted"}
    (folder / "foreign.jsonl").write_text(json.dumps(planted), encoding="utf-8")
    jwt = {"jwt_keys": str(folder / "keys.json"), "jwt_issuer": ISSUER, "jwt_audience": AUDIENCE}
    async with open_engine(settings_in(folder, auth="keys,jwt", sample_sites=(), **jwt, **changes)) as engine:
        made = Guarded(Service(engine), folder / "foreign.jsonl")
        made = made._replace(owner=await made.key())
        async with made.service.client_of(authorization=f"Bearer {made.owner}") as owner:
            chat = {"npc_id": "doctor", "query": SAID, "session_id": "own-session"}
            evidence = {"evidence": [{"text": "The bell was cast in 1651.", "evidence_id": "own-evidence"}]}
            responses = [
                await owner.post("/api/v1/personas", json=body_of("personas", "你是村医。")),
                await owner.post("/api/v1/prompts", json=body_of("prompts", "说话要慢。")),
                await owner.post("/api/v1/evidence", json=evidence),
                await owner.post("/api/v1/npc/chat", json=chat, headers={"X-Trace-ID": "own-trace"}),
            ]
        assert [each.status_code for each in responses] == [201, 201, 200, 200], [each.text for each in responses]
        yield made


async def check(made: Guarded) -> None:
    """The matrix of strangers; afterwards everything of the owner's is as it was."""
    before = await owned(made)
    await check_strangers(made)
    await check_session_takeover(made)
    await check_library(made)
    assert await owned(made) == before


async def owned(made: Guarded) -> list[Any]:
    """What the owner reads."""
    paths = [path for method, path in ROUTES if method == "get"]
    responses = [await made.ask(("get", path), made.owner, 0) for path in paths]
    assert {each.status_code for each in responses} == {200}
    return [each.text for each in responses]


async def check_credentials(made: Guarded) -> None:
    """Without valid credentials 401, without the right 403, alike for what exists and what does not."""
    revoked = await made.key()
    await made.service.engine.api_keys.revoke(revoked[4:16])
    invalid = ("", revoked, token(exp=time.time() - 300), forger().token())
    lacking = (await made.key("read"), token(scope="wenmai:read")), (await made.key("write"),)
    bodies = set()
    for operation in documented_operations():
        if operation in OPEN:
            continue
        right = RIGHT_OF[NAMES[operation]]
        for caller in invalid:
            refused = await made.same(operation, caller)
            assert refused.status_code == 401, operation
            bodies.add(refused.content)
        for caller in lacking[right == "read"]:
            assert (await made.same(operation, caller)).status_code == 403, operation
    assert len(bodies) == 1


async def check_strangers(made: Guarded) -> None:
    """Of another tenant, site or user, by key and by token, and with headers that name the owner's."""
    others = {
        "tenant": (await made.key(tenant="wang"), token(tenant="wang"), {"X-Tenant-ID": OWNED.tenant_id}),
        "site": (await made.key(site="shop"), token(sites=["shop"]), {"X-Site-ID": OWNED.site_id}),
        "user": (await made.key(user="u2"), token(sub="u2"), {"X-User-ID": OWNED.user_id}),
    }
    for who, (key, of_provider, named) in others.items():
        for caller in (key, of_provider):
            for operation in [*ROWS, *NAMING]:
                if not (who == "user" and operation in ROWS and ROWS[operation].shared):
                    status = (await made.same(operation, caller)).status_code
                    assert status == 404 or operation in NAMING, (operation, who)
                assert (await made.same(operation, caller, **named)).status_code == 404, (operation, who)


async def check_session_takeover(made: Guarded) -> None:
    """A session id that is known or guessed gives nothing: neither by creating it, nor by asking in it."""
    for other in ({"tenant": "wang"}, {"site": "shop"}, {"user": "u2"}):
        caller = await made.key(**other)
        async with made.service.client_of(authorization=f"Bearer {caller}") as stranger:
            created = await stranger.post("/v1/sessions", json={"session_id": "own-session"})
            if created.status_code == 201:
                session = f"/v1/sessions/{created.json()['session_id']}"
                assert (await stranger.get(f"{session}/messages")).json()["messages"] == [], other
                await stranger.patch(session, json={"title": "mine"})
                await stranger.delete(session)
            asked = {"npc_id": "doctor", "query": "What did I say?", "session_id": "own-session"}
            answer = await stranger.post("/api/v1/npc/chat", json=asked)
            assert "blue" not in answer.text, other
            for listed in ("/v1/sessions", "/api/v1/npc/traces", "/api/session-list"):
                assert SAID not in (await stranger.get(listed)).text, (other, listed)


async def check_library(made: Guarded) -> None:
    """The same over the library, which the CLI calls."""
    memory = made.service.engine.memory
    for scope in (OWNED._replace(tenant_id="wang"), OWNED._replace(site_id="shop"), OWNED._replace(user_id="u2")):
        for session_id in IDS["session_id"]:
            calls = (
                memory.sessions.get(scope, session_id),
                memory.sessions.rename(scope, session_id, "mine"),
                memory.history.page(scope, session_id, 10),
                memory.history.append(scope, session_id, [("doctor", {"role": "user", "content": "x"})]),
            )
            for call in calls:
                with pytest.raises(WenmaiError, match="no such session"):
                    await call
            assert not await memory.sessions.delete(scope, session_id)
            thread = ThreadKey(session_id, "doctor")
            context = await memory.contexts.build(scope, thread, "gate", budget_tokens=500, related_turns=True)
            assert SAID not in str(context)
        await import_files(memory, scope, [made.foreign_export])
        await memory.sessions.delete(scope, "own-session")


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Responses about what is not found do not wait, which takes as long as all else; that has a test of its own."""
    monkeypatch.setattr(problems, "MAX_TURNS", 1)


def test_every_route_has_a_row() -> None:
    """And every row has a route."""
    assert {*ROWS, *NAMING, *UNNAMED, *OPEN} == set(documented_operations())


async def test_a_response_about_what_is_not_found_waits_for_a_random_number_of_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the event loop, so that time does not tell what is another's from what is absent; other responses do not."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with guarded(tmp_path) as made:
        await made.ask(("get", "/v1/sessions/{session_id}"), made.owner, 0)  # the first one takes longer
        counting = asyncio.create_task(count())
        took = {}
        for wait in (0, 10_000):
            monkeypatch.setattr(secrets, "randbelow", lambda _, wait=wait: wait)
            for which in (0, 1):
                before = turns
                await made.ask(("get", "/v1/sessions/{session_id}"), made.owner, which)
                took[wait, which] = turns - before
        counting.cancel()
    assert took[10_000, 1] >= 10_000
    assert max(took[0, 0], took[0, 1], took[10_000, 0]) < 10_000


@pytest.mark.usefixtures("_at_once")
async def test_on_sqlite(tmp_path: Path) -> None:
    """In a file."""
    async with guarded(tmp_path) as made:
        await check_credentials(made)
        await check(made)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.xdist_group("postgresql")
async def test_on_postgresql_with_a_warm_redis_and_without(
    postgres_server: PostgresServer, redis_server: RedisServer, tmp_path: Path
) -> None:
    """The owner's session is in the cache; then Redis is killed, and the process has only its own."""
    async with guarded(tmp_path, store=postgres_server.store(), hot=redis_server.url, key_prefix="matrix") as made:
        await check_credentials(made)
        await check(made)
        redis_server.kill()
        await check(made)


@pytest.mark.usefixtures("_at_once")
@pytest.mark.xdist_group("opensearch")
async def test_on_opensearch(opensearch_server: OpenSearchServer, tmp_path: Path) -> None:
    """In indices of its own."""
    url = f"{opensearch_server.url(f'matrix{secrets.token_hex(4)}')}?timeout=20"
    try:
        async with guarded(tmp_path, store=url) as made:
            await check(made)
    finally:
        raw(url, "/{}_*", method="DELETE")
