"""A turn as server-sent events (SSE).

``start``, then ``step`` and ``token``, ``replace`` with the whole text if the streamed text must change, then ``done``
with the whole answer, which is stored by then, or ``error`` with problem details. When idle, a comment (``: ping``)
keeps the connection alive. For a slow reader tokens are merged, so that the queue stays bounded; a reader that
disconnects does not stop a turn that has started.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Generic, TypeVar

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from wenmai.chat.turn import Token
from wenmai.errors import ServiceStopping
from wenmai.http.problems import problem_for
from wenmai.http.responses import encode

T = TypeVar("T")

_log = logging.getLogger(__name__)

PING_SECONDS = 10.0
MAX_PENDING_EVENTS = 64
MEDIA_TYPE = "text/event-stream"
_PING = b": ping\n\n"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventQueue(Generic[T]):
    """Bounded queue of one turn's events for one reader, in order."""

    def __init__(self) -> None:
        self._pending: deque[tuple[str, object]] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return len(self._pending)

    async def put(self, event: msgspec.Struct) -> None:
        """Add an event, named by its ``kind``; never waits for the reader. Tokens are merged when the queue is full."""
        if self._closed:
            return
        if len(self._pending) >= MAX_PENDING_EVENTS and isinstance(event, Token):
            kind, last = self._pending[-1]
            if isinstance(last, Token):
                self._pending[-1] = kind, msgspec.structs.replace(last, text=last.text + event.text)
                return
        self._add(event.kind, event)  # type: ignore[attr-defined] # every event has one

    def finish(self, turn: asyncio.Task[T]) -> None:
        """Add the last event; a done callback of the turn's task."""
        if turn.cancelled():
            self.failure = ServiceStopping()
        else:
            self.failure = turn.exception()
        if self.failure is None:
            self._add("done", turn.result())
        else:
            self._add("error", problem_for(self.failure))

    def close(self) -> None:
        """Drop all events: the reader has disconnected."""
        self._closed = True
        self._pending.clear()
        self._changed.set()

    async def first_event(self) -> None:
        """Wait for the first event, at most one ping interval.

        Raises:
            BaseException: the turn failed before its first event, so there is no stream.
        """
        await self._wait()
        if self.failure is not None and len(self._pending) == 1:
            raise self.failure

    async def chunks(self) -> AsyncIterator[bytes]:
        """The encoded events and pings, until the last event or until the reader disconnects."""
        while not self._closed:
            if not self._pending and not await self._wait():
                yield _PING
            while self._pending:
                kind, data = self._pending.popleft()
                try:
                    chunk = _chunk(kind, data)
                except Exception as unreadable:  # noqa: BLE001 — sent as an error event
                    # The stream always ends with an event that the reader understands.
                    _log.exception("cannot encode a %s event, ending the stream with an error", kind)
                    kind, chunk = "error", _chunk("error", problem_for(unreadable))
                yield chunk
                if kind in ("done", "error"):
                    return

    def _add(self, kind: str, data: object) -> None:
        if not self._closed:
            self._pending.append((kind, data))
            self._changed.set()

    async def _wait(self) -> bool:
        """True as soon as an event is queued, False after one ping interval."""
        self._changed.clear()
        if self._pending:
            return True
        try:
            async with asyncio.timeout(PING_SECONDS):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True


def _chunk(kind: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), encode(data))


class EventStreamResponse(Response):
    """Sends events as fast as the reader takes them, and stops when it disconnects."""

    media_type = MEDIA_TYPE

    def __init__(self, events: EventQueue[Any]) -> None:
        super().__init__(headers=_HEADERS)
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 — ASGI
        """Send the stream."""
        watch = asyncio.create_task(self._close_on_disconnect(receive))
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            async for chunk in self._events.chunks():
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            return  # some servers raise it when the reader has disconnected
        finally:
            watch.cancel()
            self._events.close()

    async def _close_on_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._events.close()
