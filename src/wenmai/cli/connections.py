"""Connection limits: number of connections, time for a request to arrive, size of its headers.

Uvicorn limits neither the time for a partial request nor the size of its headers, and its concurrency limit rejects
requests of existing connections. Rejections are problem details.
"""

import asyncio
import logging
from functools import partial
from typing import Any, NamedTuple

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from wenmai.errors import Overloaded
from wenmai.http.problems import error_response

_log = logging.getLogger(__name__)

MAX_HEAD_BYTES = 65_536
STALL_FACTOR = 4
MIN_BYTES_PER_SECOND = 20_000
"""Each so many bytes of a request extend its deadline by one second."""

_HEADERS = {"Connection": "close", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}


class ConnectionLimits(NamedTuple):
    """Limits of one process.

    Attributes:
        connections: concurrent connections; above twice as many, connections are closed without a response.
        request_seconds: deadline for a request to arrive, plus one second for each 20 kB of it. A client that reads
            nothing of its response for four times as long is disconnected.
    """

    connections: int
    request_seconds: float


def bounded_protocol(limits: ConnectionLimits) -> Any:
    """The protocol factory for ``http`` of :class:`uvicorn.Config`."""
    return partial(BoundedProtocol, limits=limits)


class BoundedProtocol(HttpToolsProtocol):
    """Uvicorn's protocol for one connection, with limits."""

    def __init__(self, *args: Any, limits: ConnectionLimits, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._arriving = True
        self._head_complete = False
        self._received = 0
        self._started_at = self.loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as in uvicorn
        """Accept the connection, or answer 503 if there are too many."""
        super().connection_made(transport)
        allowed, count = self._limits.connections, len(self.connections)
        if count > allowed:
            self.app = _too_many_connections
        if count == allowed + 1:
            _log.warning("more than %d connections, rejecting new ones", allowed)
        if count > 2 * allowed:
            transport.abort()
        self._start_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        self._cancel_deadline()
        self._cancel_stall_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client has stopped reading: start the stall timer."""
        super().pause_writing()
        self._stall_timer = self.loop.call_later(STALL_FACTOR * self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again: cancel the stall timer."""
        self._cancel_stall_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request; the first part starts its deadline."""
        if not self._arriving:
            self._arriving, self._head_complete, self._received = True, False, 0
            self._start_deadline()
        self._received += len(data)
        super().data_received(data)
        if not self._arriving:
            self._cancel_deadline()
        elif not self._head_complete and self._received > MAX_HEAD_BYTES:
            self._reject(
                error_response(431, f"the request line and headers may have at most {MAX_HEAD_BYTES} bytes", _HEADERS)
            )

    def on_message_begin(self) -> None:
        """See uvicorn."""
        self._arriving, self._head_complete = True, False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """See uvicorn."""
        self._head_complete = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See uvicorn."""
        self._arriving = False
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer 400 to invalid HTTP."""
        self._reject(error_response(400, msg, _HEADERS))

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _start_deadline(self) -> None:
        self._cancel_deadline()
        self._started_at = self.loop.time()
        self._deadline = self.loop.call_later(self._limits.request_seconds, self._check_deadline)

    def _cancel_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _check_deadline(self) -> None:
        """Reject a request that missed its deadline; delays caused by the service do not count."""
        remaining = (
            self._started_at + self._limits.request_seconds + self._received / MIN_BYTES_PER_SECOND - self.loop.time()
        )
        cycle: RequestResponseCycle | None = self.cycle
        responding = cycle is not None and not cycle.response_complete and not cycle.more_body
        if responding or self.flow.read_paused:
            remaining = self._limits.request_seconds
        if remaining > 0:
            self._deadline = self.loop.call_later(remaining, self._check_deadline)
        else:
            self._reject(error_response(408, "the request did not arrive in time", _HEADERS))

    def _reject(self, response: Response) -> None:
        """Send the response, unless one has been started, and close."""
        if self.transport.is_closing():
            return
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or not cycle.response_started:
            lines = [b"HTTP/1.1 %d " % response.status_code]
            lines += [b"%s: %s" % header for header in response.raw_headers]
            self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()


async def _too_many_connections(scope: Scope, receive: Receive, send: Send) -> None:
    headers = {**_HEADERS, "Retry-After": str(Overloaded.retry_after)}
    await error_response(503, "too many connections", headers)(scope, receive, send)
