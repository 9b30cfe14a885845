"""Rate limits per key or user of a token, request size limits, and the headers of security."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from http_service import Service, documented_operations, open_service, settings_in
from test_http_keys import OPERATIONS

from redis_server import RedisServer
from wenmai.auth.principal import RIGHTS
from wenmai.auth.rates import LocalBuckets, Rate, parse_rate
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput
from wenmai.http.limits import MAX_BODY_BYTES, MAX_UPLOAD_BYTES


@asynccontextmanager
async def limited(folder: Path, rate: str = "2/hour", **changes: Any) -> AsyncIterator[Service]:
    """A service with keys and this limit."""
    async with open_engine(settings_in(folder, auth="keys", rate_limit=rate, sample_sites=(), **changes)) as engine:
        yield Service(engine)


async def key_of(service: Service, rate: str = "") -> str:
    """A new key with all rights, and a limit of its own."""
    keys = service.engine.api_keys
    text, _ = await keys.create(tenant_id="yan", sites=["hall"], user_id="u1", rights=RIGHTS, rate_limit=rate)
    return text


async def call(
    service: Service, key: str, method: str = "GET", path: str = "/v1/sessions", **body: Any
) -> httpx.Response:
    """The response with this key."""
    async with service.client_of(authorization=f"Bearer {key}") as client:
        return await client.request(method, path, **body)


async def test_a_key_over_its_rate_gets_429_with_the_time_to_wait(tmp_path: Path) -> None:
    """A streamed turn counts as one request; other keys are not affected, health and documentation not limited."""
    async with limited(tmp_path) as service:
        first, second = await key_of(service), await key_of(service)
        question = {"npc_id": "ancestor_yan", "query": "你好", "stream": True}
        turn = await call(service, first, "POST", "/api/v1/npc/chat", json=question)
        assert turn.headers["Content-Type"].startswith("text/event-stream")
        assert (turn.status_code, turn.headers["RateLimit"]) == (200, '"default";r=1')
        last = await call(service, first)
        assert (last.status_code, last.headers["RateLimit"]) == (200, '"default";r=0;t=1800')
        refused = await call(service, first)
        assert refused.status_code == 429
        assert refused.json()["type"] == "urn:problem:wenmai:rate-limited"
        assert refused.headers["RateLimit-Policy"] == '"default";q=2;w=3600'
        assert refused.headers["RateLimit"].startswith('"default";r=0;t=')
        assert 1790 <= int(refused.headers["Retry-After"]) <= 1800
        assert (await call(service, second)).status_code == 200
        for path in ("/healthz", "/readyz", "/docs"):
            assert (await service.client.get(path)).status_code == 200
        assert (await service.client.get("/v1/sessions")).status_code == 401


async def test_a_key_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    """In place of the setting, higher or lower; a key without one has that of the setting."""
    async with limited(tmp_path, "2/hour") as service:
        low, high, other = await key_of(service, "1/minute"), await key_of(service, "3/hour"), await key_of(service)
        assert [(await call(service, low)).status_code for _ in range(2)] == [200, 429]
        assert [(await call(service, high)).status_code for _ in range(4)] == [200, 200, 200, 429]
        assert [(await call(service, other)).status_code for _ in range(3)] == [200, 200, 429]
        refused = await call(service, low)
        assert refused.headers["RateLimit-Policy"] == '"default";q=1;w=60'
        assert 50 <= int(refused.headers["Retry-After"]) <= 60
        with pytest.raises(InvalidInput, match="such as 600/minute"):
            await key_of(service, "10/day")


async def test_the_limit_of_a_key_holds_without_the_setting_over_all_processes_on_redis(
    tmp_path: Path, redis_server: RedisServer
) -> None:
    """With one service's request the other's is used up; keys without a limit are not limited."""
    async with limited(tmp_path, "", hot=redis_server.url) as one, limited(tmp_path, "", hot=redis_server.url) as other:
        key, free = await key_of(one, "1/hour"), await key_of(one)
        assert [(await call(each, key)).status_code for each in (one, other)] == [200, 429]
        answers = [await call(each, free) for each in (one, other, one)]
        assert [(each.status_code, "RateLimit" in each.headers) for each in answers] == [(200, False)] * 3


async def test_every_route_is_limited(tmp_path: Path) -> None:
    """Whatever its right or its body."""
    async with limited(tmp_path, "1/hour") as service:
        key = await key_of(service)
        await call(service, key)
        for method, path in OPERATIONS:
            response = await call(service, key, method, path, json={"query": "x", "question": "x"})
            assert response.status_code in {429, 422}, (method, path, response.text)


async def test_processes_share_the_limit_on_redis_and_have_their_own_without(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With one service's requests the other's are used up; when Redis is gone each process limits, and says so."""
    caplog.set_level(logging.WARNING)
    redis = RedisServer()
    redis.start()
    try:
        async with limited(tmp_path, hot=redis.url) as one, limited(tmp_path, hot=redis.url) as other:
            key = await key_of(one)
            answers = [await call(each, key) for each in (one, other, one, other)]
            assert [each.status_code for each in answers] == [200, 200, 429, 429]
            assert [each.headers["RateLimit"].partition(";t")[0] for each in answers[:2]] == [
                '"default";r=1',
                '"default";r=0',
            ]
            redis.kill()
            assert [(await call(one, key)).status_code for _ in range(6)] == [200, 200, 429, 429, 429, 429]
            assert "circuit breaker rate_limit opened" in caplog.text
            assert "rate_limit" in (await one.client.get("/readyz")).json()["degraded"]
    finally:
        redis.stop()


def test_a_bucket_refills_steadily() -> None:
    """Three requests at once, then one each 20 s, never more than three."""
    at = 0.0
    rate, buckets = Rate(3, 60.0), LocalBuckets(now=lambda: at)
    taken = [buckets.take("a", rate) for _ in range(4)]
    assert [(each.allowed, each.allowance.left) for each in taken] == [(True, 2), (True, 1), (True, 0), (False, 0)]
    assert taken[3].allowance.wait_seconds == pytest.approx(20)
    assert buckets.take("b", rate).allowed
    at = 19.9
    assert not buckets.take("a", rate).allowed
    at = 20.0
    assert buckets.take("a", rate).allowed
    assert not buckets.take("a", rate).allowed
    at = 100_000.0
    assert sum(buckets.take("a", rate).allowed for _ in range(10)) == 3


@pytest.mark.parametrize("text", ["", "0/minute", "10", "10/day", "-1/hour", "1e3/hour", "10/minute "])
def test_other_rates_are_refused(text: str) -> None:
    """The error says the form."""
    with pytest.raises(InvalidInput, match="such as 600/minute"):
        parse_rate(text)


async def test_every_route_with_a_body_has_a_size_limit(tmp_path: Path) -> None:
    """One byte more is 413; the body is read no further."""
    async with open_service(tmp_path, sample_sites=(), embedder="none") as service:
        schema = service.app.openapi()["paths"]
        large = {MAX_UPLOAD_BYTES: bytes(MAX_UPLOAD_BYTES + 1), MAX_BODY_BYTES: bytes(MAX_BODY_BYTES + 1)}
        for method, path in documented_operations():
            if "requestBody" in schema[path][method]:
                limit = MAX_UPLOAD_BYTES if path.endswith("/files") else MAX_BODY_BYTES
                kind = "multipart/form-data; boundary=x" if limit == MAX_UPLOAD_BYTES else "application/json"
                response = await service.client.request(
                    method, path.format_map(_Ids()), content=large[limit], headers={"Content-Type": kind}
                )
                assert response.status_code == 413, (method, path, response.text)


class _Ids(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "1"


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_every_response_has_the_headers_of_security(scheme: str, tmp_path: Path) -> None:
    """Pages and data, errors too; data is stored by no cache; HSTS goes with TLS only."""
    async with open_service(tmp_path, sample_sites=(), embedder="none") as service:
        transport = httpx.ASGITransport(service.app)
        async with httpx.AsyncClient(transport=transport, base_url=f"{scheme}://localhost") as client:
            for method, path in [*documented_operations(), ("get", "/"), ("get", "/docs"), ("get", "/no-route")]:
                headers = (await client.request(method, path.format_map(_Ids()), json={})).headers
                where = (method, path)
                assert headers["X-Content-Type-Options"] == "nosniff", where
                assert headers["Referrer-Policy"] == "no-referrer", where
                assert headers["X-Frame-Options"] == "DENY", where
                assert "frame-ancestors 'none'" in headers["Content-Security-Policy"], where
                assert ("Strict-Transport-Security" in headers) == (scheme == "https"), where
                if path not in {"/", "/docs"}:
                    assert headers["Cache-Control"] == "no-store", where
                    assert "default-src 'none'" in headers["Content-Security-Policy"], where
                    assert "Authorization" in headers["Vary"], where
            page = await client.get("/")
            cached = await client.get("/", headers={"If-None-Match": page.headers["ETag"]})
            assert cached.status_code == 304
            assert "Content-Security-Policy" not in cached.headers
