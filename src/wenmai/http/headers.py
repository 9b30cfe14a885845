"""What answers to every route have in common: HEAD where there is GET, and headers that keep answers private."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_PRIVATE = {
    "Cache-Control": "no-store",
    "Vary": "Accept, Origin, Sec-Fetch-Site, X-Tenant-ID, X-Site-ID, X-User-ID",
}
"""Answers depend on the scope that the headers name, and are not kept by any cache."""


class HeadAsGet:
    """Answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, without_body)
        finally:
            # The metrics name the route.
            scope["route"] = asked.get("route")


class PrivateAnswers:
    """Adds the headers that keep answers out of caches, and browsers from guessing their type."""

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
