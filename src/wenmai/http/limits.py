"""Request size limit, enforced while the body arrives."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_BODY_BYTES = 2_000_000
MAX_UPLOAD_BYTES = 20_000_000


class BodyLimit:
    """Middleware that answers 413 to a request with a body over the limit of its route.

    Args:
        app: the next ASGI application.
        larger: path → limit in bytes, for routes that accept more than ``MAX_BODY_BYTES``.
    """

    def __init__(self, app: ASGIApp, larger: Mapping[str, int]) -> None:
        self._app = app
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count the bytes of its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._larger.get(scope["path"], MAX_BODY_BYTES)
        received = 0

        async def counting_receive() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > limit:
                raise HTTPException(413, f"the body may have at most {limit} bytes")
            return message

        await self._app(scope, counting_receive, send)
