"""Content-Type checks: bodies must be declared as JSON."""

from collections.abc import Callable, Coroutine
from email.message import Message
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from wenmai.http.json_body import StrictRoute

JSON = "application/json"


class JsonRoute(StrictRoute):
    """A route that answers 415 to a body with a Content-Type other than JSON."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See FastAPI."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def checked(request: Request) -> Response:
            if _has_body(request) and media_type_of(request) != JSON:
                raise HTTPException(415, f"the Content-Type must be {JSON}")
            return await handler(request)

        return checked


def media_type_of(request: Request, default: str = "") -> str:
    """The request's media type in lower case, without parameters."""
    header = Message()
    header["content-type"] = request.headers.get("content-type", default)
    return header.get_content_type() if header["content-type"] else ""


def _has_body(request: Request) -> bool:
    return "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
