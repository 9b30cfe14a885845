"""Connections with bounds: how many there may be, and how long a request may take to arrive.

Uvicorn limits neither the time that a half-sent request is waited for nor the size of its head, and its limit of
concurrency refuses requests of connections that were there before. Refusals are problem details.
"""

import asyncio
import logging
from functools import partial
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wenmai.errors import Overloaded
from wenmai.http.problems import refusal

_log = logging.getLogger(__name__)

HEAD_BYTES = 65_536
STALLS = 4
SLOWEST = 20_000
"""Bytes a second: a request that arrives more slowly has no more than its time."""

_HEADERS = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class ConnectionLimits(NamedTuple):
    """What a process allows.

    Attributes:
        connections: open at once; from twice as many on, they are closed without an answer.
        request_seconds: in which a request must have arrived, and one second more for each 20 kB of it. A client that
            takes nothing of its answer for four times as long is cut off.
    """

    connections: int
    request_seconds: float


def bounded_protocol(limits: ConnectionLimits) -> Any:
    """The ``http`` of a :class:`uvicorn.Config`."""
    return partial(BoundedProtocol, limits=limits)


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol for one connection, with bounds."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._arriving = True
        self._head_is_whole = False
        self._came = 0
        self._began = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Accept the connection, or only tell it that there are too many."""
        super().connection_made(transport)
        allowed, count = self._limits.connections, len(self.connections)
        if count > allowed:
            self.app = _too_many
        if count == allowed + 1:
            _log.warning("more than %d connections: further ones are refused", allowed)
        if count > 2 * allowed:
            transport.abort()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._unwatch()
        self._end_stall()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes nothing for now."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLS * self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client takes its answer again."""
        self._end_stall()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Take a part of a request; the first one begins its time."""
        if not self._arriving:
            self._arriving, self._head_is_whole, self._came = True, False, 0
            self._watch()
        self._came += len(data)
        super().data_received(data)
        if not self._arriving:
            self._unwatch()
        elif not self._head_is_whole and self._came > HEAD_BYTES:
            self._refuse(refusal(431, f"a head has at most {HEAD_BYTES} bytes", _HEADERS))

    def on_message_begin(self) -> None:
        """See uvicorn."""
        self._arriving, self._head_is_whole = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._head_is_whole = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See uvicorn."""
        self._arriving = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP."""
        self._refuse(refusal(400, msg, _HEADERS))

    def _end_stall(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self) -> None:
        self._unwatch()
        self._began = self.loop.time()
        self._deadline = self.loop.call_later(self._limits.request_seconds, self._check)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _check(self) -> None:
        """End the connection if its request is late; what waits because of this side is not."""
        left = self._began + self._limits.request_seconds + self._came / SLOWEST - self.loop.time()
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and not cycle.response_complete and not cycle.more_body
        if answering or self.flow.read_paused:
            left = self._limits.request_seconds
        if left > 0:
            self._deadline = self.loop.call_later(left, self._check)
        else:
            self._refuse(refusal(408, "the request did not arrive in time", _HEADERS))

    def _refuse(self, response: Response) -> None:
        """Answer, unless an answer has begun, and close."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            lines = [b"HTTP/1.1 %d " % response.status_code]
            lines += [b"%s: %s" % header for header in response.raw_headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


async def _too_many(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {**_HEADERS, "Retry-After": str(Overloaded.retry_after)}
    await refusal(503, "there are too many connections", headers)(scope, receive, send)
