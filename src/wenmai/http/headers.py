"""Middleware for all routes: HEAD as GET, and headers that limit what caches and browsers do with responses."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PRIVATE = {
    "Cache-Control": "no-store",
    "Vary": "Accept, Authorization, Origin, Sec-Fetch-Site, X-Tenant-ID, X-Site-ID, X-User-ID",
}
"""Responses depend on the caller and must not be cached."""

_DEFAULTS = {
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
}
"""For responses that are no pages; a page has a policy of its own."""

_NOT_MODIFIED = 304
"""Its headers replace those of the page in the browser's cache."""

_HSTS = "max-age=31536000"


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
    """Adds the headers of security, and what is left of the caller's rate limit, to responses.

    ``Strict-Transport-Security`` only to requests that came by TLS.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Content-Type-Options"] = "nosniff"
                if message["status"] != _NOT_MODIFIED:
                    for name, value in _DEFAULTS.items():
                        headers.setdefault(name, value)
                if scope.get("scheme") == "https":
                    headers["Strict-Transport-Security"] = _HSTS
                if limit := scope.get("state", {}).get("rate_limit"):
                    headers.update(limit)
                if "cache-control" not in headers or headers["cache-control"] == "no-store":
                    headers.update(_PRIVATE)
            await send(message)

        await self._app(scope, receive, with_headers if scope["type"] == "http" else send)
