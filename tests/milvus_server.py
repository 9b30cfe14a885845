"""Milvus Lite as a server for tests: a process of its own on 127.0.0.1 and a free port, which can be killed."""

import socket
import subprocess
import sys
import time
from pathlib import Path

from redis_server import free_port

_READY_SECONDS = 60.0

_PROGRAM = """
import sys
from milvus_lite.adapter.grpc.server import run_server
run_server(sys.argv[1], "127.0.0.1", int(sys.argv[2]))
"""


class MilvusServer:
    """A server of a folder; a killed one can be started again, on the same port.

    Args:
        folder: its data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the store."""
        return f"milvus://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it listens."""
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(self._folder), str(self._port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        deadline = time.monotonic() + _READY_SECONDS
        while not self._listens():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Milvus server did not start (code {process.poll()})")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the server with SIGKILL; does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
        except OSError:
            return False
