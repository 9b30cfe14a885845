"""Python programs as processes of their own, without the second that each would spend on imports.

A process that has imported what they need forks them, as the service forks its workers; everything else is theirs:
arguments, environment, folder, streams, process id, exit status. Run as a program, this file is that process. Tests of
the start itself use a new interpreter instead.
"""

import asyncio
import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import IO

_IMPORTED = (
    *("wenmai.cli.app", "wenmai.cli.server", "wenmai.cli.commands.chat", "wenmai.interchange"),
    *("wenmai.stores.postgresql", "wenmai.stores.redis", "wenmai.stores.cache", "wenmai.stores.sqlite"),
    *("redis.asyncio", "asyncpg"),
    *("numpy", "uvicorn.loops.uvloop", "uvicorn.protocols.http.httptools_impl", "uvicorn.lifespan.on"),
)
_IMPORTED_FOR = {
    "postgresql:": ("alembic.command", "alembic.migration", "sqlalchemy.dialects.postgresql.asyncpg"),
    "openai:": ("langchain.chat_models", "langchain.embeddings", "langchain_openai", "openai"),
}
"""What is in a program's arguments or environment → what takes a second to import, and it will need."""

_LONGEST_REQUEST = 1 << 17
_starting = Lock()


class Program:
    """A running program.

    Args:
        arguments: as of the interpreter: ``-m``, a module and its arguments, or a file and its arguments.
        env: the whole environment.
        folder: the working directory.
        stdin, stdout, stderr: open files.

    Attributes:
        pid: the process.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        folder: Path | None = None,
        stdin: IO[str] | int = subprocess.DEVNULL,
        stdout: IO[str] | int = subprocess.DEVNULL,
        stderr: IO[str] | int = subprocess.DEVNULL,
    ) -> None:
        self._arguments = list(arguments)
        self._status: int | None = None
        self._waiting = Lock()
        self._reports, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs, open(os.devnull, "r+b") as nothing:  # noqa: PTH123 — a device
            streams = [
                nothing.fileno() if each == subprocess.DEVNULL else _number(each) for each in (stdin, stdout, stderr)
            ]
            request = {"arguments": self._arguments, "env": dict(env), "folder": str(folder or Path.cwd())}
            with _starting:  # two threads would start two of them
                starter = _starter()
            socket.send_fds(starter, [json.dumps(request).encode()], [theirs.fileno(), *streams])
        self.pid = int(self._report())

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit status, negative if a signal ended it.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        if not self._waiting.acquire(timeout=-1 if timeout is None else timeout):
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0)  # another thread waits
        try:
            if self._status is None:
                self._reports.settimeout(timeout)
                self._status = int(self._report())
                self._reports.close()
        except (TimeoutError, BlockingIOError):
            raise subprocess.TimeoutExpired(self._arguments, timeout or 0) from None
        finally:
            self._waiting.release()
        return self._status

    def send_signal(self, number: signal.Signals) -> None:
        """Send the signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _report(self) -> bytes:
        line = self._reports.recv(16)
        assert line, "the process that starts programs has ended"
        return line


async def output_of(
    arguments: Sequence[str], *, stdin: int = subprocess.DEVNULL, stderr: int = 2
) -> tuple[Program, asyncio.StreamReader]:
    """A program started in this environment, and its output."""
    read, write = os.pipe()
    with open(write, "w") as output:  # noqa: ASYNC230, PTH123 — a pipe
        program = await asyncio.to_thread(Program, arguments, env=os.environ, stdin=stdin, stdout=output, stderr=stderr)
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader),
        open(read, "rb"),  # noqa: ASYNC230, PTH123, SIM115 — a pipe, closed at its end
    )
    return program, reader


def _number(stream: IO[str] | int) -> int:
    return stream if isinstance(stream, int) else stream.fileno()


@cache
def _starter() -> socket.socket:
    """The connection to the process that starts programs, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONIOENCODING": "utf-8", "PYTHONUNBUFFERED": "1", "COLUMNS": "200", "NO_COLOR": "1"},
        )
    atexit.register(process.wait)
    atexit.register(ours.close)
    return ours


def _start_programs(requests: socket.socket) -> None:
    """Fork a process for each request, until the tests end; returns in each of them, prepared to run its program."""
    _import(_IMPORTED)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, _LONGEST_REQUEST, 4)
        if not request:
            sys.exit()
        for mark, names in _IMPORTED_FOR.items():
            if mark in request.decode():
                _import(names)
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reports, *streams = descriptors
    with socket.socket(fileno=reports) as report:
        process = os.fork()
        if process:
            _report_end(process, report, streams)
    for standard, each in enumerate(streams):
        os.dup2(each, standard)
        os.close(each)
    wanted = json.loads(request)
    os.chdir(wanted["folder"])
    os.environ.clear()
    os.environ.update(wanted["env"])
    sys.argv = wanted["arguments"]


def _import(names: Sequence[str]) -> None:
    for name in names:
        import_module(name)
    gc.freeze()  # else each program would copy these objects when it collects garbage, at the latest at its end


def _report_end(process: int, report: socket.socket, streams: Sequence[int]) -> None:
    """Report the number of the process, wait for its end, report its status, and end too."""
    for each in streams:
        os.close(each)
    with suppress(BrokenPipeError):
        report.sendall(str(process).encode())
        _, waited = os.waitpid(process, 0)
        report.sendall(str(os.waitstatus_to_exitcode(waited)).encode())
    os._exit(0)


if __name__ == "__main__":
    _start_programs(socket.socket(fileno=int(sys.argv[1])))
    if sys.argv[0] == "-m":
        del sys.argv[0]
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(Path(sys.argv[0]).parent)
        runpy.run_path(sys.argv[0], run_name="__main__")
