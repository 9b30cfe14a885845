"""The pages: chat at ``/``, console at ``/console``, API documentation at ``/docs``; all files are served from here."""

from functools import cache
from importlib import resources

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from wenmai.console import CONTENT_SECURITY_POLICY, page_files
from wenmai.http.routing import resource_router

router: APIRouter = resource_router(in_schema=False)

_SWAGGER = {"swagger-ui-bundle.js": "text/javascript", "swagger-ui.css": "text/css"}
_CACHEABLE = {"Cache-Control": "private, max-age=86400"}
_REVALIDATED = {"Cache-Control": "private, no-cache"}


@router.get("/")
async def start(request: Request) -> Response:
    """The chat page."""
    return _file(request, "index.html")


@router.get("/console")
async def console(request: Request) -> Response:
    """The console for operators."""
    return _file(request, "console.html")


@router.get("/static/{name:path}")
async def static(request: Request, name: str) -> Response:
    """A file of the pages."""
    return _file(request, name)


@router.get("/docs")
async def docs(request: Request) -> Response:
    """The API documentation."""
    return _file(request, "docs.html")


@router.get("/docs/{name}")
async def asset(name: str) -> Response:
    """An asset of Swagger UI."""
    if name not in _SWAGGER:
        raise HTTPException(404)
    return Response(_swagger(name), headers=_CACHEABLE, media_type=_SWAGGER[name])


def _file(request: Request, name: str) -> Response:
    file = page_files().get(name)
    if file is None:
        raise HTTPException(404)
    headers = {**_REVALIDATED, "ETag": file.etag}
    if request.headers.get("If-None-Match") == file.etag:
        return Response(status_code=304, headers=headers)
    if file.media_type == "text/html":
        headers["Content-Security-Policy"] = CONTENT_SECURITY_POLICY
        headers |= {"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY"}
    return Response(file.content, headers=headers, media_type=file.media_type)


@cache
def _swagger(name: str) -> bytes:
    return (resources.files("fastapi_swagger") / "resources" / name).read_bytes()
