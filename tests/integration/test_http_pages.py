"""HTML pages, and headers of all responses."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from http_service import Service, open_service

from wenmai.config.settings import Settings
from wenmai.console import page_files
from wenmai.http.app import serve_app


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[Service]:
    """A service over a new file."""
    async with open_service(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("path", ["/", "/docs"])
async def test_a_page_needs_no_other_server_and_allows_none(path: str, service: Service) -> None:
    """Scripts, styles and icons come from the service; the policy of the page allows nothing else, nothing inline."""
    answer = await service.client.get(path)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    assert not re.search(r"<style|<script>|\son\w+=|style=", answer.text)
    loaded = [link for link in re.findall(r'(?:src|href)="([^"]+)"', answer.text) if not link.startswith("#")]
    assert len(loaded) >= 4
    size = len(answer.content)
    for link in loaded:
        file = await service.client.get(f"/{link}")
        assert file.status_code == 200, link
        assert not re.search(rb"(?:src|url)\W{0,3}https?://", file.content) or "swagger" in link
        size += len(file.content)
    assert size < 150_000 or path == "/docs"
    for absent in ("/docs/nothing.js", "/static/nothing.js", "/static/..%2F__init__.py"):
        assert (await service.client.get(absent)).status_code == 404


def test_a_service_without_pages_is_the_api_alone() -> None:
    """It does not load what they are made of, and its API is the same."""
    app = serve_app(Settings(pages=False))
    assert app.openapi() == serve_app(Settings()).openapi()
    paths = {getattr(route, "path", None) for route in app.routes}
    assert not paths & {"/", "/console", "/docs", "/static/{name:path}"}
    program = """
import sys
from wenmai.config.settings import Settings
from wenmai.http.app import serve_app
serve_app(Settings(pages=False))
print(sorted({"markdown_it", "nh3", "wenmai.console", "wenmai.http.routes.pages"} & set(sys.modules)))
"""
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert loaded.stdout.strip() == "[]"


async def test_a_file_of_the_pages_is_sent_once(service: Service) -> None:
    """It is revalidated by its tag, so an upgrade is seen at once."""
    first = await service.client.get("/static/app.js")
    again = await service.client.get("/static/app.js", headers={"If-None-Match": first.headers["etag"]})
    assert (first.headers["cache-control"], again.status_code, again.content) == ("private, no-cache", 304, b"")


async def test_the_whole_first_page_is_small(service: Service) -> None:
    """With all its scripts; the console has its own."""
    files = [file for name, file in page_files().items() if not name.startswith(("docs.", "console"))]
    assert sum(len(file.content) for file in files) < 150_000


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
    for path in (f"/v1/sessions/{session}", "/v1/sessions/absent", "/nowhere", "/metrics", "/openapi.json"):
        headers = (await service.client.get(path)).headers
        assert headers["cache-control"] == "no-store", path
        assert headers["x-content-type-options"] == "nosniff", path
        assert {"X-Tenant-ID", "X-Site-ID", "X-User-ID", "Accept"} <= set(headers["vary"].split(", ")), path
    refused = await service.client.get("/v1/sessions", headers={"Host": "evil.example"})
    assert refused.headers["cache-control"] == "no-store"
