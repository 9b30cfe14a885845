"""The chunks of a provider's stream, read by a task that can be abandoned.

A client library may swallow a cancellation, or be busy for long. So the caller never awaits the library itself: it
waits for what the task has read, for as long as it wants to, and drops the task when it has enough.

LangChain keeps all chunks of a stream and joins them at its end, in time that is not linear in what is no text. So the
chunks and the thoughts in them are bounded, and a tool call, for which no tools were offered, ends the stream.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wenmai.errors import ModelError
from wenmai.providers.edge import provider_errors

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk

_AHEAD = 16
"""Chunks that are read before the caller asks for them."""

MOST_CHUNKS = 16_384
MOST_THOUGHT = 200_000
"""Of an answer: its chunks, and the characters of what is no text, such as a reasoning model's thoughts."""


class Chunks:
    """An async context that reads a stream; leaving it abandons the task and waits for nothing.

    Args:
        name: of the provider, for its errors.
        stream: read and closed by the task.
        tasks: holds the task until it ends, which may be later than the context does.
    """

    def __init__(self, name: str, stream: "AsyncGenerator[AIMessageChunk]", tasks: "set[asyncio.Task[None]]") -> None:
        self._name = name
        self._stream = stream
        self._tasks = tasks
        self._read: asyncio.Queue[AIMessageChunk | Exception | None] = asyncio.Queue(_AHEAD)
        self._abandoned = False
        self._chunks = 0
        self._thought = 0

    async def __aenter__(self) -> Self:
        """Begin to read."""
        self._task = asyncio.create_task(self._run())
        self._tasks.add(self._task)
        self._task.add_done_callback(self._tasks.discard)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abandon the task: it ends at its next step, whatever becomes of the cancellation."""
        self._abandoned = True
        self._task.cancel()

    async def next(self, deadline: float) -> "AIMessageChunk | None":
        """The next chunk, None at the end of the stream.

        Raises:
            TimeoutError: it is later than ``deadline``, by ``time.monotonic``, whether or not a chunk is there.
            ModelError: the provider failed.
        """
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        if self._read.empty():
            async with asyncio.timeout(remaining):
                read = await self._read.get()
        else:
            read = self._read.get_nowait()
        if isinstance(read, Exception):
            raise read
        return read

    async def _run(self) -> None:
        try:
            with provider_errors(self._name):
                async with aclosing(self._stream) as stream:
                    async for chunk in stream:
                        if self._abandoned:
                            return
                        self._check(chunk)
                        await self._read.put(chunk)
        except Exception as failure:  # noqa: BLE001 — handed to the caller
            if not self._abandoned:
                await self._read.put(failure)
        else:
            if not self._abandoned:
                await self._read.put(None)

    def _check(self, chunk: "AIMessageChunk") -> None:
        if chunk.tool_call_chunks:
            raise ModelError(self._name, "the answer calls a tool, and none was offered")
        self._chunks += 1
        if chunk.additional_kwargs or not isinstance(chunk.content, str):
            self._thought += len(str(chunk.additional_kwargs)) + len(str(chunk.content))
        if self._chunks > MOST_CHUNKS or self._thought > MOST_THOUGHT:
            raise ModelError(self._name, "the answer is too large")
