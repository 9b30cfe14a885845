"""Bodies that are too large are refused while they come in, before anything keeps them."""

from collections.abc import Mapping

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

BODY_BYTES = 2_000_000
UPLOAD_BYTES = 20_000_000


class BodyLimit:
    """Answers 413 to a request whose body is longer than its route takes.

    Args:
        app: what comes next.
        larger: path → bytes, for the routes that take more than ``BODY_BYTES``.
    """

    def __init__(self, app: ASGIApp, larger: Mapping[str, int]) -> None:
        self._app = app
        self._larger = larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, counting its body."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        limit = self._larger.get(scope["path"], BODY_BYTES)
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > limit:
                raise HTTPException(413, f"at most {limit} bytes are taken here")
            return message

        await self._app(scope, counted, send)
