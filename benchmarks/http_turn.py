"""The whole turn over HTTP: a real server in a process of its own, the offline model, sixteen visitors at once.

::

    python -m benchmarks.http_turn [--turns 2000]
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

from benchmarks.results import Slice

VISITORS = 16
WARM_UP = 2 * VISITORS
REST_SECONDS = 2.0
"""After this time nothing is left for the background."""

HOST = "127.0.0.1"
STARTUP_SECONDS = 30.0
QUESTIONS = ("请问严氏家训有哪些？", "第一条是什么？", "有什么具体的故事吗？", "你好", "祠堂是哪一年修的？")


class NoServer(Exception):
    """The service cannot be started here."""


async def measure(folder: Path, turns: int) -> Slice:
    """So many turns, shared by the visitors, each in sessions of its own.

    Raises:
        NoServer: the ``serve`` extra is not installed.
    """
    return (await _measure(folder, turns))[0]


async def _measure(folder: Path, turns: int) -> tuple[Slice, float]:
    """The figures, and the server's CPU in milliseconds a turn, with its background work of :data:`REST_SECONDS`."""
    async with service("--store", f"sqlite:///{folder / 'http.db'}") as (port, process):
        visitors = [await Visitor.arrive(port) for _ in range(VISITORS)]
        await ask_all(visitors, WARM_UP)
        await asyncio.sleep(REST_SECONDS)
        cpu, start = _cpu_seconds(process), time.perf_counter()
        times = sorted(await ask_all(visitors, turns))
        elapsed = time.perf_counter() - start
        await asyncio.sleep(REST_SECONDS)
        cpu = _cpu_seconds(process) - cpu
        for visitor in visitors:
            visitor.leave()
    figures = Slice(
        p50_ms=1e3 * times[len(times) // 2],
        p99_ms=1e3 * times[int(0.99 * len(times))],
        per_second=len(times) / elapsed,
        turns=len(times),
        fsyncs=None,
        kept=1.0,
    )
    return figures, 1e3 * cpu / len(times)


def _cpu_seconds(process: int) -> float:
    """CPU time of a process; not a number where the system does not have Linux's ``/proc``."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return float("nan")
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ask_all(visitors: list["Visitor"], turns: int) -> list[float]:
    """Seconds of each turn; all visitors ask at once."""
    asked = await asyncio.gather(*(visitor.talk(turns // len(visitors)) for visitor in visitors))
    return [took for each in asked for took in each]


class Visitor:
    """One connection that is kept open, one question at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def arrive(cls, port: int) -> "Visitor":
        """Connect to the service at this port."""
        return cls(*await asyncio.open_connection(HOST, port))

    def leave(self) -> None:
        """Close the connection."""
        self._writer.close()

    async def talk(self, turns: int) -> list[float]:
        """Seconds of each turn; every round of questions is a new session."""
        times: list[float] = []
        session: str | None = None
        for number, question in zip(range(turns), cycle(QUESTIONS), strict=False):
            body: dict[str, object] = {"npc_id": "ancestor_yan", "query": question}
            if number % len(QUESTIONS) and session is not None:
                body["session_id"] = session
            start = time.perf_counter()
            answer = await self.post("/api/v1/npc/chat", body)
            times.append(time.perf_counter() - start)
            session = str(answer["session_id"])
            if not answer["answer_text"]:
                raise AssertionError(f"no answer: {answer}")
        return times

    async def post(self, path: str, body: dict[str, object], *, user: str = "anonymous") -> dict[str, object]:
        """The decoded answer to a user's request with a JSON body."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nX-User-ID: {user}\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
        self._writer.write(head.encode() + content)
        status, *headers = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        lengths = [line.split(":")[1] for line in headers if line.lower().startswith("content-length:")]
        answer = await self._reader.readexactly(int(lengths[0]))
        if " 200 " not in status:
            raise AssertionError(f"{status}: {answer.decode()}")
        decoded: dict[str, object] = json.loads(answer)
        return decoded


@asynccontextmanager
async def service(*options: str, program: Sequence[str] = ()) -> AsyncIterator[tuple[int, int]]:
    """The port and the process of a running service.

    Args:
        options: of ``wenmai serve``.
        program: the module that runs instead of ``wenmai``, with its first arguments.

    Raises:
        NoServer: the ``serve`` extra is not installed, or it does not come up.
    """
    if find_spec("uvicorn") is None or find_spec("fastapi") is None:
        raise NoServer("wenmai[serve] is not installed")
    port = await _free_port()
    command = [sys.executable, "-m", *(program or ("wenmai",)), "serve", *options, "--port", str(port)]
    environment = {**os.environ, "WENMAI_LOG_LEVEL": "warning", "WENMAI_EMBEDDER": "none"}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, stdout=quiet, stderr=quiet, env=environment)
    try:
        await _wait_until_it_answers(port, process)
        yield port, process.pid
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _free_port() -> int:
    probe = await asyncio.start_server(lambda _reader, writer: writer.close(), HOST, 0)
    port: int = probe.sockets[0].getsockname()[1]
    probe.close()
    await probe.wait_closed()
    return port


async def _wait_until_it_answers(port: int, process: asyncio.subprocess.Process) -> None:
    deadline = time.monotonic() + STARTUP_SECONDS
    while time.monotonic() < deadline and process.returncode is None:
        try:
            _, writer = await asyncio.open_connection(HOST, port)
        except OSError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    raise NoServer("wenmai serve did not come up")


def main() -> None:
    """Print the figures of one run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=2_000)
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-") as folder:
        measured, cpu = asyncio.run(_measure(Path(folder), parser.parse_args().turns))
    print(f"{measured.turns} turns, {VISITORS} at a time: p50 {measured.p50_ms:.1f} ms,", end=" ")
    print(f"p99 {measured.p99_ms:.1f} ms, {measured.per_second:.0f} turns/s, {cpu:.2f} ms of CPU a turn")


if __name__ == "__main__":
    main()
