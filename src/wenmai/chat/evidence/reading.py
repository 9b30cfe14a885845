"""Files are read off the event loop: small ones in a thread, larger ones in a process with a time limit.

Every reader takes linear time, so a small file holds a thread for a fraction of a second, in which the loop gets its
turn every few milliseconds. A large file could hold the interpreter for longer at a time, and a thread cannot be
ended; a process can, and it takes its memory with it. It costs about 0.2 s to start, so small files do without.
"""

import asyncio
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from wenmai.chat.evidence.messages import LENGTH_BYTES, Batch, Message, Refusal, messages
from wenmai.chat.evidence.parsing import BadLine
from wenmai.errors import InvalidInput
from wenmai.stores.records import EvidenceRecord

SMALL_BYTES = 64_000
"""Files up to this size are read in a thread."""

SECONDS = 60.0
MOST_READ = 100_000_000
"""Bytes of passages that a file may become: front matter stands in each of them."""

AT_ONCE = 2
"""Files that are read at the same time; others wait."""

_PROCESS = "wenmai.chat.evidence.reading_process"
_log = logging.getLogger(__name__)
_decoder = msgspec.msgpack.Decoder(Message)


class FileRead(msgspec.Struct, frozen=True):
    """What a file has.

    Attributes:
        passages: how many.
        bad: the first 100 lines that could not be used.
        bad_count: all of them.
    """

    passages: int
    bad: list[BadLine]
    bad_count: int
    _batches: list[bytes]

    def records(self) -> Iterator[EvidenceRecord]:
        """The passages in their order, decoded a batch at a time."""
        for encoded in self._batches:
            batch = _decoder.decode(encoded)
            assert isinstance(batch, Batch)  # noqa: S101 — only the last message is another one
            yield from batch.records


class FileReader:
    """Reads files for one event loop.

    Args:
        seconds: how long reading a large file may take.
        small_bytes: see :data:`SMALL_BYTES`.
    """

    def __init__(self, *, seconds: float = SECONDS, small_bytes: int = SMALL_BYTES) -> None:
        self._seconds = seconds
        self._small_bytes = small_bytes
        self._places = asyncio.Semaphore(AT_ONCE)

    async def read(self, data: bytes, name: str) -> FileRead:
        """The passages of a file; see :func:`wenmai.chat.evidence.parsing.parse`.

        Raises:
            InvalidInput: the file cannot be read, or not in time; what it has of passages is given up.
        """
        async with self._places:
            if len(data) <= self._small_bytes:
                came = await asyncio.to_thread(lambda: list(messages(data, name)))
            else:
                came = await self._in_process(data, name)
        outcome = _decoder.decode(came.pop())
        if isinstance(outcome, Refusal):
            raise InvalidInput(outcome.field, name, outcome.allowed)
        assert not isinstance(outcome, Batch)  # noqa: S101 — the last message is none
        return FileRead(outcome.passages, outcome.bad, outcome.bad_count, came)

    async def _in_process(self, data: bytes, name: str) -> list[bytes]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", _PROCESS),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        try:
            async with asyncio.timeout(self._seconds):
                return await _exchanged(process, data, name)
        except TimeoutError as late:
            raise InvalidInput("file", name, f"read within {self._seconds:g} s; divide it") from late
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


async def _exchanged(process: asyncio.subprocess.Process, data: bytes, name: str) -> list[bytes]:
    """The messages of the process for a file."""
    assert process.stdin is not None  # noqa: S101 — both are pipes
    assert process.stdout is not None  # noqa: S101
    called = name.encode()
    with suppress(BrokenPipeError, ConnectionResetError):  # it has ended: its status is looked at below
        process.stdin.write(len(called).to_bytes(LENGTH_BYTES) + called)
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()
    came: list[bytes] = []
    size = 0
    while size <= MOST_READ:
        try:
            length = int.from_bytes(await process.stdout.readexactly(LENGTH_BYTES))
            came.append(await process.stdout.readexactly(length))
        except asyncio.IncompleteReadError:
            break
        size += length
    else:
        raise InvalidInput(
            "file", name, f"one that gives at most {MOST_READ} bytes of passages; shorten its front matter"
        )
    status = await process.wait()
    if status or not came:
        _log.error("the process that read %r ended with status %d", name, status)
        raise InvalidInput("file", name, f"one that can be read: its reader ended with status {status}")
    return came
