"""Size limits of HTTP responses.

Providers' libraries read a whole response, or a whole event, however large it is. LangChain tries to repair tool call
arguments that are not valid JSON, in time quadratic in their length. Both block the event loop, so such responses are
aborted before the library reads them.
"""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

MAX_RESPONSE_BYTES = 16_000_000
MAX_EVENT_BYTES = 262_144
MAX_TOOL_CALL_BYTES = 4_096
"""Limits of a response, of one server-sent event, and of one event with a tool call."""

_EVENT_END = re.compile(rb"(?:\r\n|\r|\n){2}")
_TOOL_CALL = re.compile(rb"(?<!\\)\"(?:tool_calls\"\s*:\s*\[\s*\{|arguments\"|response\.function_call)|\\u00[4-7]")
"""A tool call in JSON; needlessly escaped letters may hide one."""
_LONGEST_KEY = 64


class AnswerTooLarge(Exception):
    """The response exceeds a size limit."""


async def limit_response(response: Any) -> None:
    """Limit the body of a response while it is read; a response hook for httpx clients, whichever package.

    Raises:
        AnswerTooLarge: it is compressed although that was not requested; its size is unknown.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AnswerTooLarge("the answer is compressed")
    size = _BodyCounter(in_events=response.headers.get("content-type", "").lower().startswith("text/event-stream"))
    read = response.aiter_raw

    async def counted(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        async with aclosing(read(chunk_size)) as body:
            async for data in body:
                size.add(data)
                yield data

    response.aiter_raw = counted


class _BodyCounter:
    """Counts the bytes of a body; with ``in_events``, also of each event."""

    def __init__(self, *, in_events: bool) -> None:
        self._in_events = in_events
        self._received = 0
        self._event = bytearray()
        self._calls_tool = False

    def add(self, data: bytes) -> None:
        """Count a part of the body.

        Raises:
            AnswerTooLarge: the body or an event is too large.
        """
        self._received += len(data)
        if self._received > MAX_RESPONSE_BYTES:
            raise AnswerTooLarge(f"more than {MAX_RESPONSE_BYTES} bytes")
        if not self._in_events:
            return
        new = max(0, len(self._event) - _LONGEST_KEY)
        self._event += data
        while ends := _EVENT_END.search(self._event, new):
            self._check(new, ends.end())
            del self._event[: ends.end()]
            new, self._calls_tool = 0, False
        self._check(new, len(self._event))

    def _check(self, new: int, size: int) -> None:
        if size > MAX_EVENT_BYTES:
            raise AnswerTooLarge(f"more than {MAX_EVENT_BYTES} bytes in an event")
        self._calls_tool = self._calls_tool or _TOOL_CALL.search(self._event, new, size) is not None
        if self._calls_tool and size > MAX_TOOL_CALL_BYTES:
            raise AnswerTooLarge(f"a tool call of more than {MAX_TOOL_CALL_BYTES} bytes")
