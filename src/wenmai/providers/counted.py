"""Answers of a bounded size only.

Providers' libraries read an answer whole, or up to the end of an event, however large it is. LangChain tries to repair
the arguments of a tool call that are not valid JSON, in time quadratic in their length. Both stop the event loop, so
such answers are given up before they get there.
"""

import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

ANSWER_BYTES = 16_000_000
EVENT_BYTES = 262_144
TOOL_CALL_BYTES = 4_096
"""The largest answer; the largest of its server-sent events, and the largest of those that hold a tool call."""

_EVENT_END = re.compile(rb"(?:\r\n|\r|\n){2}")
_TOOL_CALL = re.compile(rb"(?<!\\)\"(?:tool_calls\"\s*:\s*\[\s*\{|arguments\"|response\.function_call)|\\u00[4-7]")
"""A tool call in JSON; letters that are escaped without need may hide one."""
_LONGEST_KEY = 64


class AnswerTooLarge(Exception):
    """A server sends more than an answer can have."""


async def bound(response: Any) -> None:
    """Have the body of a response counted while it is read; a response hook of httpx's clients, whichever package.

    Raises:
        AnswerTooLarge: it is compressed, which was not asked for, and may be of any size.
    """
    if response.headers.get("content-encoding", "identity") != "identity":
        raise AnswerTooLarge("the answer is compressed")
    size = _Size(in_events=response.headers.get("content-type", "").lower().startswith("text/event-stream"))
    read = response.aiter_raw

    async def counted(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        async with aclosing(read(chunk_size)) as body:
            async for data in body:
                size.add(data)
                yield data

    response.aiter_raw = counted


class _Size:
    """What has come of a body; with ``in_events``, each of its events is bounded too."""

    def __init__(self, *, in_events: bool) -> None:
        self._in_events = in_events
        self._came = 0
        self._event = bytearray()
        self._calls_tool = False

    def add(self, data: bytes) -> None:
        """Count a piece.

        Raises:
            AnswerTooLarge: the body or an event is too large.
        """
        self._came += len(data)
        if self._came > ANSWER_BYTES:
            raise AnswerTooLarge(f"more than {ANSWER_BYTES} bytes")
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
        if size > EVENT_BYTES:
            raise AnswerTooLarge(f"more than {EVENT_BYTES} bytes in an event")
        self._calls_tool = self._calls_tool or _TOOL_CALL.search(self._event, new, size) is not None
        if self._calls_tool and size > TOOL_CALL_BYTES:
            raise AnswerTooLarge(f"a tool call of more than {TOOL_CALL_BYTES} bytes")
