"""Fake servers of unsupported versions: they report their version like the old servers, and nothing else.

They test our version check; no old server is run.
"""

import socketserver
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class OldPostgresql(socketserver.StreamRequestHandler):
    """Accepts any login, like PostgreSQL 13."""

    def handle(self) -> None:
        """Refuse TLS, read the startup message, and report the version."""
        length, code = struct.unpack("!ii", self.rfile.read(8))
        if code == 80877103:  # SSLRequest
            self.wfile.write(b"N")
            length, _ = struct.unpack("!ii", self.rfile.read(8))
        self.rfile.read(length - 8)
        self.wfile.write(_answer(b"R", struct.pack("!i", 0)))
        for name, value in (("server_version", "13.14"), ("server_encoding", "UTF8"), ("client_encoding", "UTF8")):
            self.wfile.write(_answer(b"S", f"{name}\0{value}\0".encode()))
        self.wfile.write(_answer(b"K", struct.pack("!ii", 1, 1)) + _answer(b"Z", b"I"))
        self.rfile.read()


class OldRedis(socketserver.StreamRequestHandler):
    """Knows INFO, like Redis 5, and no later commands."""

    def handle(self) -> None:
        """Answer one command after another."""
        info = b"# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n"
        while head := self.rfile.readline():
            words = [self._word() for _ in range(int(head[1:]))]
            known = words[0].upper() == b"INFO"
            self.wfile.write(b"$%d\r\n%s\r\n" % (len(info), info) if known else b"-ERR unknown command\r\n")

    def _word(self) -> bytes:
        length = int(self.rfile.readline()[1:])
        return self.rfile.read(length + 2)[:-2]


class Silent(socketserver.StreamRequestHandler):
    """Accepts connections and never answers."""

    def handle(self) -> None:
        """Wait until the client disconnects."""
        self.rfile.read()


def _answer(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


@contextmanager
def served(handler: type[socketserver.StreamRequestHandler]) -> Iterator[int]:
    """The port of 127.0.0.1 on which the fake server listens, for the duration of the context."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()
