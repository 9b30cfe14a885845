"""HTML pages, and headers of all responses."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.config.settings import Settings
from wenmai.http.app import serve_app


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


async def test_the_start_page_has_working_links(service: Service) -> None:
    """All links work, and the example uses the service's address and a persona."""
    page = (await service.client.get("/")).text
    for link in re.findall(r'href="([^"]+)"', page):
        assert (await service.client.get(f"/{link}")).status_code == 200, link
    assert "http://localhost/api/v1/npc/chat" in page
    assert "ancestor_yan" in page


async def test_docs_need_no_other_server(service: Service) -> None:
    """All scripts, styles and icons come from the service, so the page works offline."""
    page = (await service.client.get("/docs")).text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert len(loaded) == 3
    assert not re.search(r"https?://|//cdn", page)
    for path in loaded:
        file = await service.client.get(f"/{path}")
        assert file.status_code == 200, path
        assert len(file.content) > 500
    assert "'openapi.json'" in page or '"openapi.json"' in page
    assert (await service.client.get("/docs/nothing.js")).status_code == 404


async def test_head_is_get_without_the_body(service: Service) -> None:
    """Same status and headers, on every GET route."""
    paths: dict[str, Any] = serve_app(Settings()).openapi()["paths"]
    for path in [*(path for path, methods in paths.items() if "get" in methods), "/", "/docs", "/openapi.json"]:
        url = re.sub(r"\{[^}]+\}", "1", path)
        got, head = await service.client.get(url), await service.client.head(url)
        assert (head.status_code, head.content) == (got.status_code, b""), url
        assert head.headers.keys() == got.headers.keys(), url
    assert (await service.client.head("/api/v1/npc/chat")).status_code == 405
    assert 'method="HEAD",route="/healthz",status="200"' in (await service.client.get("/metrics")).text


async def test_responses_are_not_cached_and_not_sniffed(service: Service) -> None:
    """On all routes, for problems and for unknown routes too."""
    session = await service.create_session()
    for path in (f"/v1/sessions/{session}", "/v1/sessions/absent", "/nowhere", "/metrics", "/docs"):
        headers = (await service.client.get(path)).headers
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert {"X-Tenant-ID", "X-Site-ID", "X-User-ID", "Accept"} <= set(headers["vary"].split(", ")), path
    refused = await service.client.get("/v1/sessions", headers={"Host": "evil.example"})
    assert refused.headers["cache-control"] == "no-store"
