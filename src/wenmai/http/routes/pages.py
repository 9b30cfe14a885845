"""HTML pages: the start page ``/`` and the API documentation ``/docs``; all assets are served from here."""

from functools import cache
from html import escape
from importlib import resources
from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from wenmai.http.dependencies import EngineDep

router: APIRouter = APIRouter(include_in_schema=False)

_MEDIA_TYPES = {
    "swagger-ui-bundle.js": "text/javascript",
    "swagger-ui.css": "text/css",
    "favicon-32x32.png": "image/png",
}
_CACHEABLE = {"Cache-Control": "private, max-age=86400"}

_START = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Wenmai 文脉</title>
<style>body {{ font: 1rem/1.6 system-ui, sans-serif; max-width: 44rem; margin: 3rem auto; padding: 0 1rem }}
pre {{ background: #f4f4f4; padding: 1rem; overflow-x: auto }}</style></head>
<body>
<h1>Wenmai 文脉 {version}</h1>
<p>Conversation memory in which facts come from evidence, never from memory. The service is running.<br>
<span lang="zh">会话记忆服务：事实只来自证据，不来自记忆。服务正在运行。</span></p>
<ul>
<li><a href="docs">/docs</a>: API documentation <span lang="zh">（接口文档，可直接试用）</span></li>
<li><a href="openapi.json">/openapi.json</a>: the same, machine-readable</li>
<li><a href="readyz">/readyz</a>, <a href="metrics">/metrics</a>: readiness and metrics</li>
</ul>
<p>A first question <span lang="zh">（第一个问题）</span>:</p>
<pre>curl -s {url}api/v1/npc/chat -H 'Content-Type: application/json' \\
  -d '{{"npc_id": "{persona}", "query": "你好"}}'</pre>
</body></html>
"""


@router.get("/")
async def start(request: Request, engine: EngineDep) -> Response:
    """The start page."""
    persona = next(iter(engine.profile.personas), None)
    return HTMLResponse(
        _START.format(
            version=escape(version("wenmai")),
            url=escape(str(request.base_url)),
            persona=escape(persona.persona_id if persona else "…"),
        )
    )


@router.get("/docs")
async def docs() -> Response:
    """Swagger UI."""
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title="Wenmai 文脉",
        swagger_js_url="docs/swagger-ui-bundle.js",
        swagger_css_url="docs/swagger-ui.css",
        swagger_favicon_url="docs/favicon-32x32.png",
    )


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """An asset of Swagger UI."""
    if name not in _MEDIA_TYPES:
        raise HTTPException(404)
    return Response(_content(name), headers=_CACHEABLE, media_type=_MEDIA_TYPES[name])


@cache
def _content(name: str) -> bytes:
    return (resources.files("fastapi_swagger") / "resources" / name).read_bytes()
