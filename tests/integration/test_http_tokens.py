"""Tokens of an identity provider over HTTP: who may do what, and what is refused."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from http_service import Service, settings_in

from identity_provider import AUDIENCE, ISSUER, IdentityProvider, identity_provider
from wenmai.auth import signing_keys
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput, SigningKeysUnavailable

RIGHTS = "wenmai:chat wenmai:read wenmai:write"


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    """A running identity provider."""
    with identity_provider() as running:
        yield running


@asynccontextmanager
async def served(folder: Path, provider: IdentityProvider, **changes: Any) -> AsyncIterator[Service]:
    """A service that accepts the provider's tokens."""
    named = {"jwt_issuer": ISSUER, "jwt_audience": AUDIENCE, "jwt_keys": provider.url}
    settings = settings_in(folder, sample_sites=(), **{"auth": "jwt", **named, **changes})
    async with open_engine(settings) as engine:
        yield Service(engine)


async def status(service: Service, token: str, path: str = "/v1/sessions", **headers: str) -> int:
    """The status of a request with a token."""
    async with service.client_of(authorization=f"Bearer {token}", **headers) as client:
        return (await client.get(path)).status_code


async def test_a_token_speaks_for_its_tenant_site_and_user(tmp_path: Path, provider: IdentityProvider) -> None:
    """Signed by either key; headers may not name another; rights are those of the token, of this service alone."""
    async with served(tmp_path, provider) as service:
        mine, other = provider.token(scope=RIGHTS), provider.token("ec-1", sub="u2", scope=RIGHTS.split())
        async with service.client_of(authorization=f"Bearer {mine}") as client:
            assert (await client.post("/v1/sessions", json={"session_id": "s1"})).status_code == 201
        assert await status(service, mine, "/v1/sessions/s1") == 200
        assert await status(service, other, "/v1/sessions/s1") == 404
        assert [await status(service, mine, **{f"x-{name}-id": "foreign"}) for name in ("tenant", "site", "user")] == [
            404
        ] * 3
        assert await status(service, provider.token(scope="read wenmai:chat")) == 403
        assert await status(service, provider.token(scope=None)) == 403
        assert await status(service, provider.token(sites=None), x_site_id="any") == 200
        assert provider.reads == 1


def forged(change: Callable[[dict[str, Any], dict[str, Any]], None]) -> Callable[[IdentityProvider], str]:
    """A token whose header or claims were changed after it was signed."""

    def make(provider: IdentityProvider) -> str:
        parts = provider.token().split(".")
        header, claims = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in parts[:2])
        change(header, claims)
        changed = [
            base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in (header, claims)
        ]
        return ".".join([*changed, parts[2]])

    return make


def signed_with_the_public_key(provider: IdentityProvider) -> str:
    """HS256, with what everybody can read as the shared secret: algorithm confusion."""
    public = jwt.PyJWK(provider.published["rsa-1"]).key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    header = {"kid": "rsa-1", "alg": "HS256", "typ": "JWT"}
    claims = jwt.decode(provider.token(), options={"verify_signature": False})
    body = ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (header, claims)
    )
    mac = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256).sign(body.encode(), public)
    return f"{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"


def of_another_provider(provider: IdentityProvider) -> str:
    """The same key id, another key."""
    claims = jwt.decode(provider.token(), options={"verify_signature": False})
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return jwt.encode(claims, key, algorithm="RS256", headers={"kid": "rsa-1"})


REFUSED: dict[str, Callable[[IdentityProvider], str]] = {
    "expired": lambda provider: provider.token(exp=time.time() - 60),
    "without an end": lambda provider: provider.token(exp=None),
    "not yet valid": lambda provider: provider.token(nbf=time.time() + 60),
    "another issuer": lambda provider: provider.token(iss="https://login.example.evil"),
    "another audience": lambda provider: provider.token(aud="another"),
    "without an audience": lambda provider: provider.token(aud=None),
    "without a tenant": lambda provider: provider.token(tenant=None),
    "a tenant that is no name": lambda provider: provider.token(tenant=["yan"]),
    "the scope of keys": lambda provider: provider.token(tenant="*"),
    "without a user": lambda provider: provider.token(sub=None),
    "a user that is no name": lambda provider: provider.token(sub="auth0|1"),
    "no site": lambda provider: provider.token(sites=[]),
    "sites that are no list": lambda provider: provider.token(sites={"hall": True}),
    "changed claims": forged(lambda _, claims: claims.update(sub="u2")),
    "no signature": forged(lambda header, _: header.update(alg="none")),
    "another algorithm": forged(lambda header, _: header.update(alg="PS256")),
    "a critical header": forged(lambda header, _: header.update(crit=["exp"])),
    "a key id that is no text": forged(lambda header, _: header.update(kid=["rsa-1"])),
    "signed with the public key": signed_with_the_public_key,
    "of another provider": of_another_provider,
    "too long": lambda provider: provider.token(more="x" * 32_000),
    "a deep header": lambda _: base64.urlsafe_b64encode(b"[" * 5_000).decode() + ".b.c",
    "an endless end": lambda provider: provider.token(exp=float("inf")),
    "a subject that no log can have": lambda provider: provider.token(sub="u\ud800"),
    "no token": lambda _: "a.b.c",
    "an API key": lambda _: "wmk_" + "0" * 12,
}


async def test_what_is_no_valid_token_is_refused_alike(tmp_path: Path, provider: IdentityProvider) -> None:
    """Whatever is wrong with it, the response is the same, and does not say what."""
    bodies = set()
    async with served(tmp_path, provider) as service:
        assert await status(service, provider.token()) == 200
        for why, make in REFUSED.items():
            async with service.client_of(authorization=f"Bearer {make(provider)}") as client:
                response = await client.get("/v1/sessions")
            assert (why, response.status_code, response.headers["WWW-Authenticate"]) == (why, 401, "Bearer")
            bodies.add(response.text)
        headers = [("Authorization", f"Bearer {provider.token()}")] * 2
        assert (await service.client.get("/v1/sessions", headers=headers)).status_code == 401
    assert len(bodies) == 1


async def test_new_keys_are_read_seldom_and_known_ones_outlive_the_provider(
    tmp_path: Path, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unknown ids cause one read in a while; where it fails, they are 503, while known keys still work."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    async with served(tmp_path, provider) as service:
        assert await status(service, provider.token()) == 200
        provider.add("rsa-2", key, "RS256")
        assert [await status(service, provider.token("rsa-2")) for _ in range(5)] == [401] * 5
        assert provider.reads == 1
        monkeypatch.setattr(signing_keys, "RETRY_SECONDS", 0.0)
        assert await status(service, provider.token("rsa-2")) == 200
        provider.add("rsa-3", key, "RS256")
        provider.status = 500
        async with service.client_of(authorization=f"Bearer {provider.token('rsa-3')}") as client:
            response = await client.get("/v1/sessions")
        assert (response.status_code, response.json()["type"]) == (503, "urn:problem:wenmai:signing-keys-unavailable")
        assert "Retry-After" in response.headers
        monkeypatch.setattr(signing_keys, "REFRESH_SECONDS", 0.0)
        assert await status(service, provider.token("rsa-2")) == 200
        monkeypatch.setattr(signing_keys, "KEEP_SECONDS", 0.0)
        assert await status(service, provider.token("rsa-2")) == 503


async def test_keys_and_tokens_are_accepted_beside_each_other(tmp_path: Path, provider: IdentityProvider) -> None:
    """The keys may be a file; tokens without a user claim speak for all users; shared secrets are no keys."""
    file = tmp_path / "jwks.json"
    shared = {"kty": "oct", "k": "c2VjcmV0" * 8, "kid": "shared"}
    file.write_text(json.dumps({"keys": [shared, *provider.jwks["keys"]]}), encoding="utf-8")
    settings = {"auth": "keys,jwt", "jwt_keys": str(file), "jwt_user_claim": ""}
    async with served(tmp_path, provider, **settings) as service:
        key, _ = await service.engine.api_keys.create(tenant_id="yan", rights=["read"])
        assert [await status(service, each, x_user_id="u9") for each in (key, provider.token())] == [200, 200]
        claims = jwt.decode(provider.token(), options={"verify_signature": False})
        assert await status(service, jwt.encode(claims, b"secret" * 8, headers={"kid": "shared"})) == 401
    assert provider.reads == 0


@pytest.mark.filterwarnings("ignore:The RSA key")  # PyJWT, as it signs with it
async def test_short_keys_and_redirects_are_no_keys(tmp_path: Path, provider: IdentityProvider) -> None:
    """An RSA key of 1024 bits signs nothing; the keys are read at the named address only."""
    with identity_provider() as other:
        other.add("short", rsa.generate_private_key(public_exponent=65537, key_size=1024), "RS256")  # noqa: S505
        async with served(tmp_path, other) as service:
            assert [await status(service, other.token(key)) for key in ("rsa-1", "short")] == [200, 401]
        provider.status, provider.location = 302, other.url
        async with served(tmp_path, provider) as service:
            assert await status(service, other.token()) == 503


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("jwt_issuer", ""),
        ("jwt_audience", ""),
        ("jwt_keys", ""),
        ("jwt_keys", "http://login.example/keys"),
        ("jwt_keys", "file:///etc/hostname"),
        ("jwt_tenant_claim", ""),
    ],
)
async def test_impossible_settings_stop_the_start(
    tmp_path: Path, provider: IdentityProvider, field: str, value: str
) -> None:
    """The error names the setting."""
    with pytest.raises(InvalidInput, match=field):
        async with served(tmp_path, provider, **{field: value}):
            pass


MALFORMED_KEYS: list[dict[str, Any]] = [
    {"kid": ["a"]},
    {"alg": ["ES256"]},
    {"alg": "none"},
    {"alg": "HS256"},
    {"x": 1},
    {"kty": "RSA"},
    {"crv": "P-521"},
]


async def test_a_malformed_key_leaves_the_others_usable(tmp_path: Path, provider: IdentityProvider) -> None:
    """Whatever is wrong with it."""
    file = tmp_path / "keys.json"
    good = provider.published["ec-1"]
    bad = [{**good, "kid": f"bad-{number}", **wrong} for number, wrong in enumerate(MALFORMED_KEYS)]
    file.write_text(json.dumps({"keys": [*bad, None, "key", good]}))
    keys = signing_keys.SigningKeys(str(file))
    assert await keys.find("ec-1")
    assert [each["kid"] for each in bad if isinstance(each["kid"], str) and await keys.find(each["kid"])] == []


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
FAULTY_RESPONSES = {
    "no HTTP": b"what?\r\n\r\n",
    "cut short": OK + b'{"keys": []',
    "nested deeply": OK.replace(b"1000", b"200000") + b"[" * 200_000,
    "too long": OK.replace(b"1000", b"9000000") + b" " * 9_000_000,
}


@pytest.mark.parametrize("response", FAULTY_RESPONSES.values(), ids=FAULTY_RESPONSES)
async def test_a_faulty_response_means_that_the_keys_are_unavailable(response: bytes) -> None:
    """Not that the token is wrong, nor an error of the service."""
    async with answering(response) as url:
        with pytest.raises(SigningKeysUnavailable):
            await signing_keys.SigningKeys(url).find("rsa-1")


async def test_a_response_that_trickles_ends_the_reading_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each attempt would leave a thread behind, until none is left for anything."""
    monkeypatch.setattr(signing_keys, "READ_SECONDS", 0.3)
    async with answering(OK, trickle=b" " * 900) as url:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            await asyncio.to_thread(signing_keys.SigningKeys(url)._load)
        assert time.monotonic() - began < 2


@asynccontextmanager
async def answering(response: bytes, trickle: bytes = b"") -> AsyncIterator[str]:
    """The URL of a server with one response, the end of which takes long."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with closing(writer), suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response)
            for byte in trickle:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.005)
            await writer.drain()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/keys"
