"""A TCP proxy that misbehaves when it is told to: between a client and a real server, in the test's own event loop."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

Fault = Literal["none", "refuse", "hang", "slow", "reset", "half_close"]
FAULTS: tuple[Fault, ...] = ("refuse", "hang", "slow", "reset", "half_close")
"""What :meth:`FaultProxy.break_with` knows.

refuse: nobody listens, and connections that stand are cut.
hang: connections stand and are accepted, and no byte comes through.
slow: each piece of an answer comes one byte at a time, ``SLOW_SECONDS`` apart.
reset: what the server would answer ends in a reset instead.
half_close: the proxy ends its side after half of an answer, and goes on reading.
"""

SLOW_SECONDS = 0.2
_PIECE = 65_536


class FaultProxy:
    """Listens on a port of 127.0.0.1 and passes bytes to and from ``target``.

    Args:
        target: a port of 127.0.0.1, or the path of a Unix socket.

    Attributes:
        port: where clients connect; the same for the proxy's whole life.
        requests: how many pieces clients have sent since the proxy began, whatever became of them.
        accepted: how many connections clients have made since then.
        standing: how many of them stand.
        most_standing: how many stood at once since :meth:`count_anew`.
    """

    def __init__(self, target: int | Path) -> None:
        self.port = 0
        self.requests = 0
        self.accepted = 0
        self.standing = 0
        self.most_standing = 0
        self._target = target
        self._fault: Fault = "none"
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self) -> None:
        """Begin to accept connections."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def break_with(self, fault: Fault) -> None:
        """Misbehave from now on, on connections that stand too."""
        self._fault = fault
        if fault == "refuse":
            await self._stop_listening()
            self._cut_all()

    async def heal(self) -> None:
        """Behave from now on; connections that a fault has touched are cut."""
        broken = self._fault != "none"
        self._fault = "none"
        if broken:
            self._cut_all()
        if self._server is None:
            await self.listen()

    def count_anew(self) -> None:
        """Begin to count connections again; those that stand count for the most that stood at once."""
        self.accepted, self.most_standing = 0, self.standing

    async def close(self) -> None:
        """Cut everything and wait for it."""
        await self._stop_listening()
        self._cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
            await asyncio.sleep(0)

    def _cut_all(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        try:
            if isinstance(self._target, Path):
                server_reader, server_writer = await asyncio.open_unix_connection(self._target)
            else:
                server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, server_writer}
        for pump in (self._requests(reader, server_writer), self._answers(server_reader, writer)):
            task = asyncio.ensure_future(pump)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _requests(self, reader: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        self.standing += 1
        self.most_standing = max(self.most_standing, self.standing)
        try:
            while piece := await reader.read(_PIECE):
                self.requests += 1
                if self._fault != "hang":
                    server.write(piece)
                    await server.drain()
        except OSError:
            pass
        finally:
            self.standing -= 1
            server.transport.abort()

    async def _answers(self, reader: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        try:
            ended = False
            while piece := await reader.read(_PIECE):
                if not ended:
                    ended = self._fault == "half_close"
                    await self._answer(piece, client)
        except OSError:
            pass
        finally:
            if not client.is_closing() and self._fault not in ("half_close", "hang"):
                client.transport.abort()

    async def _answer(self, piece: bytes, client: asyncio.StreamWriter) -> None:
        match self._fault:
            case "hang":
                return
            case "slow":
                for byte in piece:
                    if client.is_closing():
                        return
                    client.write(bytes([byte]))
                    await asyncio.sleep(SLOW_SECONDS)
            case "reset":
                _reset(client)
            case "half_close":
                client.write(piece[: len(piece) // 2])
                client.write_eof()
            case _:
                client.write(piece)
        await client.drain()


def _reset(client: asyncio.StreamWriter) -> None:
    """End the connection with RST, as a crashed peer or a firewall does."""
    client.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.transport.abort()


@asynccontextmanager
async def fault_proxy(target: int | Path) -> AsyncIterator[FaultProxy]:
    """A proxy in front of the port or socket, healthy at first."""
    proxy = FaultProxy(target)
    await proxy.listen()
    try:
        yield proxy
    finally:
        await proxy.close()
