"""The chunks of a provider's stream, read by a task that can be abandoned.

A client library may swallow a cancellation or block for long. So the caller never awaits the library itself: it reads
from the task's queue with its own timeout, and abandons the task when it is done.

LangChain keeps all chunks of a stream and joins them at its end, in time that is not linear in non-text content. So the
number of chunks and their non-text content are limited, and a tool call ends the stream, as no tools are offered.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wenmai.errors import ModelError
from wenmai.providers.errors import provider_errors

if TYPE_CHECKING:
    from langchain_core.messages import AIMessageChunk

_READ_AHEAD = 16
"""Capacity of the queue of chunks read ahead."""

MAX_CHUNKS = 16_384
MAX_NON_TEXT_CHARACTERS = 200_000
"""Limits of an answer: chunks, and characters of content other than text, such as a model's reasoning."""


class Chunks:
    """An async context that reads a stream; leaving it abandons the task without waiting.

    Args:
        name: of the provider, for error messages.
        stream: read and closed by the task.
        tasks: holds a reference to the task until it ends, possibly after the context.
    """

    def __init__(self, name: str, stream: "AsyncGenerator[AIMessageChunk]", tasks: "set[asyncio.Task[None]]") -> None:
        self._name = name
        self._stream = stream
        self._tasks = tasks
        self._read: asyncio.Queue[AIMessageChunk | Exception | None] = asyncio.Queue(_READ_AHEAD)
        self._abandoned = False
        self._chunks = 0
        self._non_text_characters = 0

    async def __aenter__(self) -> Self:
        """Start reading."""
        self._task = asyncio.create_task(self._run())
        self._tasks.add(self._task)
        self._task.add_done_callback(self._tasks.discard)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Abandon the task: it ends at its next step, even if the cancellation is swallowed."""
        self._abandoned = True
        self._task.cancel()

    async def next(self, deadline: float) -> "AIMessageChunk | None":
        """The next chunk; None at the end of the stream.

        Raises:
            TimeoutError: ``deadline`` (``time.monotonic``) has passed, whether or not a chunk is available.
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
        except Exception as failure:  # noqa: BLE001 — re-raised in the caller
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
            self._non_text_characters += len(str(chunk.additional_kwargs)) + len(str(chunk.content))
        if self._chunks > MAX_CHUNKS or self._non_text_characters > MAX_NON_TEXT_CHARACTERS:
            raise ModelError(self._name, "the answer is too large")
