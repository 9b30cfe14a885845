"""The proxy's configuration, as it is read by :mod:`nginx_config`: who comes in, and as whom."""

import re
from functools import cache
from pathlib import Path

import pytest

from nginx_config import Nginx, Outcome
from wenmai.http.app import serve_app
from wenmai.settings import Settings

ROOT = Path(__file__).parents[2]
CONFIGURATION = (ROOT / "deploy/proxy/nginx.conf").read_text(encoding="utf-8")
SCOPE_HEADERS = ("X-Tenant-ID", "X-Site-ID", "X-User-ID")

ALICE, SHOP, EDITOR = "a" * 64, "5" * 64, "e0" * 32
KEYS = f"""
# who may come in
{ALICE} acme/shop/alice/talk;
{SHOP} acme/shop/*/talk;
{EDITOR} acme/shop/editors/manage;
"""

PUBLIC, OPERATORS = 8443, 9101
TALK_ROUTES = ("/api/v1/npc/", "/v1/sessions", "/v1/recall")


def asked(
    method: str = "GET", uri: str = "/v1/sessions", key: str = "", *, port: int = PUBLIC, keys: str = KEYS, **more: str
) -> Outcome:
    """What becomes of a request with this key; keywords are further headers."""
    headers = {name.replace("_", "-"): value for name, value in more.items()}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return Nginx(CONFIGURATION, {"/etc/wenmai/keys/keys.map": keys}).request(port, method, uri, headers)


@cache
def routes() -> list[tuple[str, str]]:
    """Every method and path of the service, with an id where the path has a parameter."""
    paths = serve_app(Settings()).openapi()["paths"]
    return [
        (method.upper(), re.sub(r"\{[^}]+\}", "a-1", path)) for path, methods in paths.items() for method in methods
    ]


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        f"Bearer {'b' * 64}",
        f"Bearer {ALICE.upper()}",
        f"Bearer {ALICE}0",
        f"Bearer  {ALICE}",
        "Basic YTpi",
    ],
)
def test_nobody_comes_in_without_a_known_key(authorization: str) -> None:
    """No key, an unknown one, one written otherwise: 401 on every route, those of health and metrics included."""
    answered = {asked(method, path, Authorization=authorization).status for method, path in routes()}
    assert answered == {401}


@pytest.mark.parametrize(
    "owner",
    [
        "acme",
        "acme/shop",
        "acme/shop/alice",
        "acme/shop/alice/all",
        "acme//alice/talk",
        "a b/shop/alice/talk",
        "/s/u/talk",
    ],
)
def test_badly_written_owner_lets_nobody_in(owner: str) -> None:
    """A line of the keys that is not as it should be opens nothing."""
    assert asked(key=ALICE, keys=f'{ALICE} "{owner}";').status == 401


def test_example_of_the_keys_lets_nobody_in() -> None:
    """The example that ships holds comments alone, and can be read."""
    example = (ROOT / "deploy/proxy/keys.map.example").read_text(encoding="utf-8")
    assert asked(key=ALICE, keys=example).status == 401


def test_the_key_says_whose_data_it_is() -> None:
    """The scope headers are the key's, whatever the caller says, and the key itself goes no further."""
    passed = asked(key=ALICE, X_Tenant_ID="rival", X_Site_ID="vault", X_User_ID="bob", X_Trace_ID="t-1").headers
    assert [passed[name.lower()] for name in SCOPE_HEADERS] == ["acme", "shop", "alice"]
    assert "authorization" not in passed
    assert passed["x-trace-id"] == "t-1"
    assert asked(Authorization=f"bearer {ALICE}").status is None


def test_an_application_names_its_users_and_nothing_else() -> None:
    """A key with `*` takes the user from the caller; tenant and site are the key's all the same."""
    passed = asked(key=SHOP, X_Tenant_ID="rival", X_Site_ID="vault", X_User_ID="bob").headers
    assert [passed[name.lower()] for name in SCOPE_HEADERS] == ["acme", "shop", "bob"]
    assert "x-user-id" not in asked(key=SHOP).headers


def test_headers_are_set_where_every_way_through_inherits_them() -> None:
    """The three scope headers are set for all servers at once; a block with one of its own would lose them."""
    http = Nginx(CONFIGURATION, {}).http
    named = [directive.words[1] for directive in http.all("proxy_set_header")]
    assert set(SCOPE_HEADERS) <= set(named)
    assert len([each for each in http.within() if each.name == "proxy_set_header"]) == len(named)


def test_rights_follow_the_routes() -> None:
    """A key to talk opens talks, plain memory and the search of evidence, and nothing else; one to manage all."""
    for method, path in routes():
        talk = path.startswith(TALK_ROUTES) or (method, path) == ("POST", "/api/v1/evidence/search")
        assert asked(method, path, ALICE).status == (None if talk else 403), (method, path)
        assert asked(method, path, EDITOR).status is None, (method, path)


@pytest.mark.parametrize(
    "uri",
    [
        "/api/v1/%65vidence",
        "/v1/sessions/..%2F..%2Fapi/v1/evidence",
        "/v1/sessionsX",
        "/api/v1/evidence/search/",
        "/api/v1/evidence?x=/v1/sessions",
        "//api/v1/evidence",
    ],
)
def test_spelling_a_path_otherwise_gives_no_rights(uri: str) -> None:
    """The path counts as Wenmai gets it; what is not plainly a route of talk is refused."""
    assert asked("POST", uri, ALICE).status == 403


def test_query_is_no_hindrance() -> None:
    """Queries may hold anything."""
    assert asked("PUT", "/api/v1/npc/sessions/s-1/preference?interest_tag=%E5%86%9C", ALICE).status is None


@pytest.mark.parametrize("uri", ["/healthz", "/readyz", "/metrics"])
def test_operators_port_shows_health_and_nothing_else(uri: str) -> None:
    """Probes and Prometheus need no key, get a scope from nobody, and reach routes that there are."""
    passed = asked(uri=uri, port=OPERATORS, X_Tenant_ID="acme", X_User_ID="alice")
    assert passed.status is None
    assert not {name.lower() for name in SCOPE_HEADERS} & set(passed.headers)
    assert ("GET", uri) in routes()
    assert asked(uri="/v1/sessions", port=OPERATORS).status == 404
