"""A turn as server-sent events.

``start``, then ``step`` and ``token`` as they come, ``replace`` with the whole text if what was shown must change, then
``done`` with the whole answer, which is stored by then, or ``error`` with problem details. While nothing happens a
comment, ``: ping``, keeps the connection alive. A reader who is slower than the model gets several tokens in one event,
so that what waits for it stays small; one who goes away does not stop the turn.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wenmai.chat.turn import TurnEvent
from wenmai.errors import ServiceStopping
from wenmai.http.problems import problem_of
from wenmai.http.reply import encode

T = TypeVar("T")

_log = logging.getLogger(__name__)

PING_SECONDS = 10.0
WAITING_EVENTS = 64
MEDIA_TYPE = "text/event-stream"
_PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Events(Generic[T]):
    """The events of one turn on their way to one reader, in order."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[str, Any]] = deque()
        self._changed = asyncio.Event()
        self._left = False
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    async def put(self, event: TurnEvent) -> None:
        """Add what the turn emits; it never waits for the reader."""
        if self._left:
            return
        if len(self._waiting) >= WAITING_EVENTS and event.kind == "token":
            kind, data = self._waiting[-1]
            if kind == "token":
                self._waiting[-1] = kind, {"text": data["text"] + event.data["text"]}
                return
        self._add(event.kind, event.data)

    def end_with(self, turn: asyncio.Task[T]) -> None:
        """Add the last event, when the turn's task is done."""
        if turn.cancelled():
            self.failure = ServiceStopping()
        else:
            self.failure = turn.exception()
        if self.failure is None:
            self._add("done", turn.result())
        else:
            self._add("error", problem_of(self.failure).model_dump(exclude_none=True))

    def leave(self) -> None:
        """The reader is gone: keep nothing for it."""
        self._left = True
        self._waiting.clear()
        self._changed.set()

    async def opened(self) -> None:
        """Wait until there is something to send, at most a ping's time.

        Raises:
            BaseException: the turn failed before it told anything; there is no stream then.
        """
        await self._wait()
        if self.failure is not None and len(self._waiting) == 1:
            raise self.failure

    async def chunks(self) -> AsyncIterator[bytes]:
        """What to send, until the last event is sent or the reader is gone."""
        while not self._left:
            if not self._waiting and not await self._wait():
                yield _PING
            while self._waiting:
                kind, data = self._waiting.popleft()
                try:
                    chunk = _chunk(kind, data)
                except Exception as unreadable:  # noqa: BLE001 — sent as the stream's error
                    # Whatever an event holds, the stream has an end that its reader understands.
                    _log.exception("an event %s cannot be sent", kind)
                    kind, chunk = "error", _chunk("error", problem_of(unreadable).model_dump(exclude_none=True))
                yield chunk
                if kind in ("done", "error"):
                    return

    def _add(self, kind: str, data: object) -> None:
        if not self._left:
            self._waiting.append((kind, data))
            self._changed.set()

    async def _wait(self) -> bool:
        """True as soon as something waits, False after a ping's time."""
        self._changed.clear()
        if self._waiting:
            return True
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _chunk(kind: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(data))


class EventStream(Response):
    """Sends events as fast as the reader takes them, and stops when it is gone."""

    media_type = MEDIA_TYPE

    def __init__(self, events: Events[Any]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — ASGI
        """Send the stream."""
        watch = asyncio.create_task(self._leave_with_reader(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._events.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            return  # servers may say so that the reader is gone
        finally:
            watch.cancel()
            self._events.leave()

    async def _leave_with_reader(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._events.leave()
