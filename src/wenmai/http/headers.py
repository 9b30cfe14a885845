"""Middleware for all routes: HEAD as GET, and headers that prevent caching and MIME sniffing."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PRIVATE = {
    "Cache-Control": "no-store",
    "Vary": "Accept, Origin, Sec-Fetch-Site, X-Tenant-ID, X-Site-ID, X-User-ID",
}
"""Responses depend on the scope headers and must not be cached."""


class HeadAsGet:
    """Answers HEAD as GET without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        as_get = {**scope, "method": "GET"}
        try:
            await self._app(as_get, receive, without_body)
        finally:
            # The metrics read the route.
            scope["route"] = as_get.get("route")


class PrivateResponses:
    """Adds ``Cache-Control``, ``Vary`` and ``nosniff`` to responses."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if "cache-control" not in headers or headers["cache-control"] == "no-store":
                    headers.update(_PRIVATE)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
