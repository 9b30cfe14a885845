"""The door of the deployment as it ships, the real Caddy before the real service: who comes in, as whom, and where."""

import re
from collections.abc import Iterator
from functools import cache

import httpx
import pytest
from proxied import ALICE, EDITOR, KEYS, RIVAL, SHOP, client_of, is_problem, sent, status_of
from service_process import ServiceProcess

from caddy_server import CaddyServer, Certificate
from wenmai.config.settings import Settings
from wenmai.http.app import serve_app

pytestmark = pytest.mark.xdist_group("proxy")

SPOILED = {
    "1" * 64: "acme",
    "2" * 64: "acme shop alice",
    "3" * 64: "acme shop alice all",
    "4" * 64: 'acme "" alice talk',
    "6" * 64: '"" "" "" manage',
    "7" * 64: '"a b" shop alice talk',
    "8" * 64: '"acme/shop" vault alice talk',
    "9" * 64: "acme/shop/alice/talk",
    "D" * 64: "acme shop alice talk",
    "short": "acme shop alice talk",
}
"""Lines that are not as they should be."""

TALK_ROUTES = ("/api/v1/npc/", "/v1/sessions")
FORGED = {"X-Tenant-ID": "rival", "X-Site-ID": "vault", "X-User-ID": "bob"}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """What the proxy shows."""
    return Certificate(tmp_path_factory.mktemp("certificate"))


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a service over a new file."""
    folder = tmp_path_factory.mktemp("service")
    running = ServiceProcess("--store", f"sqlite:///{folder / 'wenmai.db'}", log=folder / "log")
    yield running.url
    running.remove()


@pytest.fixture(scope="module")
def proxy(service: str, certificate: Certificate, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaddyServer]:
    """The proxy in front of it."""
    lines = "\n".join(f"{key} {rest}" for key, rest in SPOILED.items())
    running = CaddyServer(service, tmp_path_factory.mktemp("proxy"), certificate, keys=f"{KEYS}{lines}\n")
    yield running
    running.stop()


def session_of(proxy: CaddyServer, key: str, **headers: str) -> str:
    """The id of a new session."""
    with client_of(proxy, key, **headers) as client:
        created = client.post("/v1/sessions", json={})
    assert created.status_code == 201, created.text
    return str(created.json()["session_id"])


@cache
def routes() -> list[tuple[str, str]]:
    """Every method and path of the service, with an id where the path has a parameter."""
    paths = serve_app(Settings()).openapi()["paths"]
    return [(method.upper(), re.sub(r"\{[^}]+\}", "1", path)) for path, methods in paths.items() for method in methods]


# Who comes in


def test_nobody_comes_in_without_a_key(proxy: CaddyServer) -> None:
    """401 on every route, those of health and metrics included, whatever scope the caller claims."""
    with client_of(proxy, **FORGED) as client:
        for method, path in [*routes(), ("GET", "/openapi.json")]:
            answered = client.request(method, path)
            assert is_problem(answered, 401), path
            assert answered.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(
    "authorization",
    [
        "Bearer",
        f"Bearer {'b' * 64}",
        f"Bearer {ALICE.upper()}",
        f"Bearer {ALICE}0",
        f"Bearer  {ALICE}",
        f"Bearer {ALICE}, Bearer {EDITOR}",
        f"Basic {ALICE}",
        "Bearer {wenmai_key}",
        "Bearer ~.*",
    ],
)
def test_unknown_keys_are_refused(proxy: CaddyServer, authorization: str) -> None:
    """An unknown key, or a known one that is written otherwise."""
    with client_of(proxy, Authorization=authorization) as client:
        assert is_problem(client.get("/v1/sessions"), 401)


def test_two_keys_are_none(proxy: CaddyServer) -> None:
    """Two headers with a key each are not taken for one of them."""
    assert status_of(sent(proxy, "/v1/sessions", f"Authorization: Bearer {EDITOR}")) == 401


@pytest.mark.parametrize("key", SPOILED)
def test_spoiled_lines_let_nobody_in(proxy: CaddyServer, key: str) -> None:
    """A line of the keys that is not as it should be opens nothing."""
    with client_of(proxy, key) as client:
        assert is_problem(client.get("/v1/sessions"), 401)


def test_any_name_of_the_proxy_will_do(proxy: CaddyServer) -> None:
    """A key is what lets in, so the proxy may have any name; a page of another site is refused all the same."""
    with client_of(proxy, ALICE) as client:
        assert client.get("/v1/sessions", headers={"Host": "talks.example"}).status_code == 200
        assert is_problem(client.get("/v1/sessions", headers={"Origin": "https://evil.example"}), 403)
    with httpx.Client(base_url=proxy.operators_url, trust_env=False) as probe:
        assert probe.get("/healthz", headers={"Host": "10.1.2.3:9101"}).status_code == 200


def test_a_page_beside_the_proxy_is_named_by_a_setting(
    certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Its origin is refused until WENMAI_ALLOWED_HOSTS has it; other names are refused then too."""
    folder = tmp_path_factory.mktemp("named")
    store = f"sqlite:///{folder / 'wenmai.db'}"
    service = ServiceProcess(
        "--store", store, log=folder / "log", WENMAI_ALLOWED_HOSTS="shop.example,other.example:8443"
    )
    try:
        proxy = CaddyServer(service.url, folder, certificate, keys=KEYS)
        try:
            with client_of(proxy, ALICE) as client:
                for origin, status in (
                    ("https://shop.example", 200),
                    ("https://other.example:8443", 200),
                    ("https://other.example", 403),
                    ("https://evil.example", 403),
                ):
                    assert client.get("/v1/sessions", headers={"Origin": origin}).status_code == status, origin
        finally:
            proxy.stop()
        direct = httpx.get(f"{service.url}/v1/sessions", headers={"Host": "shop.example"}, trust_env=False)
        assert direct.status_code == 200
    finally:
        service.remove()


# As whom


def test_the_key_says_whose_data_it_is(proxy: CaddyServer, service: str) -> None:
    """The scope is the key's, whatever the caller says of tenant, site and user."""
    session = f"/v1/sessions/{session_of(proxy, ALICE, **FORGED)}"
    owner = {"X-Tenant-ID": "acme", "X-Site-ID": "shop", "X-User-ID": "alice"}
    assert httpx.get(f"{service}{session}", headers=owner, trust_env=False).status_code == 200
    assert httpx.get(f"{service}{session}", headers=FORGED, trust_env=False).status_code == 404
    with client_of(proxy, ALICE, **FORGED) as client:
        assert client.get(session).status_code == 200


def test_another_tenants_key_finds_nothing(proxy: CaddyServer) -> None:
    """What belongs to one tenant does not exist for the key of another, even if it claims to be the first."""
    session_id = session_of(proxy, ALICE)
    claimed = {"X-Tenant-ID": "acme", "X-Site-ID": "shop", "X-User-ID": "alice"}
    with client_of(proxy, RIVAL, **claimed) as client:
        foreign, absent = client.get(f"/v1/sessions/{session_id}"), client.get("/v1/sessions/absent")
        assert is_problem(foreign, 404)
        assert foreign.content == absent.content
        assert session_id not in client.get("/v1/sessions").text


def test_scope_cannot_be_taken_out_on_the_way(proxy: CaddyServer) -> None:
    """Headers that the caller calls hop-by-hop are dropped before the proxy writes its own."""
    session_id = session_of(proxy, ALICE)
    dropped = "Connection: X-Tenant-ID, X-Site-ID, X-User-ID, close"
    assert status_of(sent(proxy, f"/v1/sessions/{session_id}", dropped)) == 200


@pytest.mark.parametrize("header", ["X_Tenant_ID: rival", "x-tenant-id: rival", "X-Tenant-ID: a\r\nX-Tenant-ID: rival"])
def test_scope_cannot_be_said_otherwise(proxy: CaddyServer, header: str) -> None:
    """Other spellings and repetitions of the headers change nothing."""
    session_id = session_of(proxy, ALICE)
    assert status_of(sent(proxy, f"/v1/sessions/{session_id}", header)) == 200


def test_an_application_names_its_users_and_nothing_else(proxy: CaddyServer, service: str) -> None:
    """A key with `*` takes the user from the caller; tenant and site are the key's all the same."""
    session = f"/v1/sessions/{session_of(proxy, SHOP, **FORGED)}"
    bob = {"X-Tenant-ID": "acme", "X-Site-ID": "shop", "X-User-ID": "bob"}
    assert httpx.get(f"{service}{session}", headers=bob, trust_env=False).status_code == 200
    with client_of(proxy, SHOP, X_User_ID="carol") as client:
        assert client.get(session).status_code == 404


@pytest.mark.parametrize("named", ["", "X-User-ID: a\r\nX-User-ID: b", "X-User-ID: {env.PATH}", "X-User-ID: *"])
def test_an_application_must_name_one_user(proxy: CaddyServer, named: str) -> None:
    """None, two, or a name that is none is refused by Wenmai: nobody is taken for somebody else."""
    answered = sent(proxy, "/v1/sessions", *([named] if named else []), key=SHOP)
    assert status_of(answered) == 422
    assert b"X-User-ID" in answered


# What a key opens


def test_rights_follow_the_routes(proxy: CaddyServer) -> None:
    """A key to talk opens talks, plain memory and the search of evidence; one to manage all but operators' routes."""
    with client_of(proxy, ALICE) as talker, client_of(proxy, EDITOR) as editor:
        for method, path in routes():
            talk = path.startswith(TALK_ROUTES) or (method, path) == ("POST", "/api/v1/evidence/search")
            manage = path.startswith(("/v1/", "/api/v1/"))
            assert (talker.request(method, path).status_code != 403) == talk, (method, path)
            assert (editor.request(method, path).status_code != 403) == manage, (method, path)
        assert is_problem(talker.get("/api/v1/evidence"), 403)


@pytest.mark.parametrize(
    "target",
    [
        "/api/v1/%65vidence",
        "/api/v1/Evidence",
        "/v1/sessions/..%2F..%2Fapi/v1/evidence",
        "/v1/sessions/%2e%2e/%2e%2e/api/v1/evidence",
        "/v1/sessions/../../api/v1/evidence",
        "/v1/sessions/./../../api/v1/evidence",
        "/v1/sessions/..;/evidence",
        "/v1/sessions\\..\\..\\api\\v1\\evidence",
        "/v1/sessions//api/v1/evidence",
        "/v1/sessionsX",
        "/v1/sessions%00",
        "/v1/sessions%0a/api/v1/evidence",
        "/api/v1/npc/../evidence",
        "/api/v1/evidence/search/",
        "/api/v1/evidence/search?x",
        "/api/v1/evidence?x=/v1/sessions",
        "/api/v1/evidence#/v1/sessions",
        "//api/v1/evidence",
        "http://wenmai.example/api/v1/evidence",
        "http:/api/v1/evidence",
        "/V1/sessions",
        "/v1/usage",
    ],
)
def test_spelling_a_path_otherwise_gives_no_rights(proxy: CaddyServer, target: str) -> None:
    """The path counts as Wenmai gets it; what is not plainly a route of talk is refused."""
    assert status_of(sent(proxy, target, "Content-Length: 0", method="POST")) == 403


@pytest.mark.parametrize(
    "target", ["/metrics", "/%6detrics", "//metrics", "/v1/../metrics", "/v1/..%2fmetrics", "/readyz", "/openapi.json"]
)
def test_operators_routes_are_for_no_key(proxy: CaddyServer, target: str) -> None:
    """They are about all tenants, so a key to manage one does not open them, however they are spelled."""
    assert status_of(sent(proxy, target, key=EDITOR)) == 403


def test_query_is_no_hindrance(proxy: CaddyServer) -> None:
    """Queries may hold anything, and reach Wenmai as they are."""
    with client_of(proxy, ALICE) as client:
        session_id = session_of(proxy, ALICE)
        changed = client.put(f"/api/v1/npc/sessions/{session_id}/preference", params={"interest_tag": "农/..?#耕"})
        assert changed.status_code == 200, changed.text
        assert "农/..?#耕" in changed.text


def test_operators_port_shows_health_and_nothing_else(proxy: CaddyServer) -> None:
    """Probes and Prometheus need no key; nothing else is there, with a key or without."""
    with httpx.Client(base_url=proxy.operators_url, trust_env=False) as client:
        assert [client.get(path).status_code for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
        for method, path in [*routes(), ("GET", "/openapi.json"), ("GET", "//metrics"), ("GET", "/metrics/")]:
            if path not in {"/healthz", "/readyz", "/metrics"}:
                known = {"Authorization": f"Bearer {EDITOR}"}
                assert client.request(method, path, headers=known).status_code == 404, path


def test_answers_pass_unchanged(proxy: CaddyServer, service: str) -> None:
    """Status, body and headers of Wenmai's problems and documents are what Wenmai sent."""
    scope = {"X-Tenant-ID": "acme", "X-Site-ID": "shop", "X-User-ID": "alice"}
    with client_of(proxy, ALICE) as client, httpx.Client(base_url=service, headers=scope, trust_env=False) as direct:
        for path in ("/v1/sessions/absent", "/v1/sessions?limit=0", "/api/v1/npc/sessions/absent"):
            through, at_once = client.get(path), direct.get(path)
            assert through.content == at_once.content
            assert through.status_code == at_once.status_code
            assert through.headers["content-type"] == at_once.headers["content-type"]
