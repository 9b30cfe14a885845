"""Reads files off the event loop: small ones in a thread, larger ones in a process with a timeout.

Every reader takes linear time, so a small file occupies a thread for a fraction of a second, in which the loop runs
every few milliseconds. A large file could hold the interpreter for longer at a time, and a thread cannot be killed; a
process can, and its memory is freed with it. It takes about 0.2 s to start, so small files do without.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from wenmai.errors import InvalidInput
from wenmai.grounding.evidence.messages import LENGTH_BYTES, Batch, Message, Refusal, messages
from wenmai.grounding.evidence.parsing import BadLine
from wenmai.stores.records import EvidenceRecord

SMALL_BYTES = 64_000
"""Maximum size of files that are read in a thread."""

SECONDS = 60.0
MAX_OUTPUT_BYTES = 100_000_000
"""Maximum bytes of the passages of a file: front matter is repeated in each of them."""

MAX_CONCURRENT = 2
"""Files read concurrently; others wait."""

_PROCESS = "wenmai.grounding.evidence.reading_process"
_log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(Message)


class FileRead(msgspec.Struct, frozen=True):
    """Contents of a file.

    Attributes:
        passages: number of passages.
        bad: the first 100 bad lines.
        bad_count: number of bad lines.
    """

    passages: int
    bad: list[BadLine]
    bad_count: int
    _batches: list[bytes]

    def records(self) -> Iterator[EvidenceRecord]:
        """The passages in order, decoded a batch at a time."""
        for encoded in self._batches:
            batch = _decoder.decode(encoded)
            assert isinstance(batch, Batch)  # noqa: S101 — only the last message is of another type
            yield from batch.records


class FileReader:
    """Reads files for one event loop.

    Args:
        seconds: timeout for a large file.
        small_bytes: see :data:`SMALL_BYTES`.
    """

    def __init__(self, *, seconds: float = SECONDS, small_bytes: int = SMALL_BYTES) -> None:
        self._seconds = seconds
        self._small_bytes = small_bytes
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)

    async def read(self, data: bytes, name: str) -> FileRead:
        """The passages of a file; see :func:`wenmai.grounding.evidence.parsing.parse`.

        Raises:
            InvalidInput: the file cannot be read, or not in time; its passages are discarded.
        """
        async with self._slots:
            if len(data) <= self._small_bytes:
                received = await asyncio.to_thread(lambda: list(messages(data, name)))
            else:
                received = await self._in_process(data, name)
        outcome = _decoder.decode(received.pop())
        if isinstance(outcome, Refusal):
            raise InvalidInput(outcome.field, name, outcome.allowed)
        assert not isinstance(outcome, Batch)  # noqa: S101 — the last message is never a batch
        return FileRead(outcome.passages, outcome.bad, outcome.bad_count, received)

    async def _in_process(self, data: bytes, name: str) -> list[bytes]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _PROCESS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await _exchange(process, data, name)
        except TimeoutError as timeout:
            raise InvalidInput("file", name, f"read within {self._seconds:g} s; divide it") from timeout
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _exchange(process: asyncio.subprocess.Process, data: bytes, name: str) -> list[bytes]:
    """Send the file to the process and receive its messages."""
    assert process.stdin is not None  # noqa: S101 — both are pipes
    assert process.stdout is not None  # noqa: S101
    encoded_name = name.encode()
    with suppress(BrokenPipeError, ConnectionResetError):  # it has exited: its status is checked below
        process.stdin.write(len(encoded_name).to_bytes(LENGTH_BYTES) + encoded_name)
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
    received: list[bytes] = []
    size = 0
    while size <= MAX_OUTPUT_BYTES:
        try:
            length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
            received.append(await process.stdout.readexactly(length))
        except asyncio.IncompleteReadError:
            break
        size += length
    else:
        raise InvalidInput(
            "file", name, f"one that gives at most {MAX_OUTPUT_BYTES} bytes of passages; shorten its front matter"
        )
    status = await process.wait()
    if status or not received:
        _log.error("the process that read %r ended with status %d", name, status)
        raise InvalidInput("file", name, f"one that can be read: its reader ended with status {status}")
    return received
