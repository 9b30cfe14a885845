"""Connection limits of a running service: timeouts, number of connections, header size, invalid HTTP."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from service_process import ServiceProcess

from wenmai.cli.connections import MAX_HEAD_BYTES, STALL_FACTOR

pytestmark = pytest.mark.xdist_group("connections")

REQUEST_SECONDS = 1.0
CONNECTIONS = 8
HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
PAGE = b"GET /docs/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """A service with a request timeout of one second and few connections."""
    folder = tmp_path_factory.mktemp("service")
    limits = {"WENMAI_REQUEST_SECONDS": str(REQUEST_SECONDS), "WENMAI_MAX_CONNECTIONS": str(CONNECTIONS)}
    running = ServiceProcess("--store", f"sqlite:///{folder / 'wenmai.db'}", log=folder / "log", **limits)
    yield running
    running.remove()


def connected(service: ServiceProcess, data: bytes = b"") -> socket.socket:
    """A connection that has sent the data."""
    connection = socket.create_connection(("127.0.0.1", int(service.port)), 20)
    connection.sendall(data)
    return connection


def answer_of(connection: socket.socket) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of the response, after which the service closes."""
    with connection:
        head, _, body = b"".join(iter(lambda: connection.recv(65536), b"")).partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines[1:])
    return int(lines[0].split()[1]), headers, body


def problem(connection: socket.socket, status: int) -> dict[str, Any]:
    """The problem with which the service closes the connection."""
    answered, headers, body = answer_of(connection)
    assert answered == status, body
    assert headers["content-type"] == "application/problem+json"
    assert int(headers["content-length"]) == len(body)
    found: dict[str, Any] = json.loads(body)
    assert found["status"] == status
    return found


def wait_until_free(service: ServiceProcess) -> None:
    """Wait until the connections of the previous test are closed."""
    for _ in range(200):
        if answer_of(connected(service, HEAD + b"Connection: close\r\n\r\n"))[0] == 200:
            return
        time.sleep(0.05)
    pytest.fail("connections are held")


def test_half_sent_requests_end(service: ServiceProcess) -> None:
    """408 and close, after nothing, a part of the headers, or a part of the body."""
    wait_until_free(service)
    begun = [
        b"",
        b"GET /hea",
        HEAD + b"X",
        POST + b"Content-Length: 1000\r\n\r\n{",
        POST + b"Transfer-Encoding: chunked\r\n\r\n1",
    ]
    for part, connection in [(part, connected(service, part)) for part in begun]:
        assert problem(connection, 408)["type"] == "urn:problem:wenmai:too-slow", part


def test_a_trickle_does_not_keep_a_request_alive(service: ServiceProcess) -> None:
    """The deadline applies to the whole request; single bytes or blank lines do not extend it."""
    wait_until_free(service)
    began = time.monotonic()
    trickles = {HEAD: b"X: y\r\n", POST + b"Content-Length: 100000\r\n\r\n": b" ", b"": b"\r\n"}
    open_ones = {connected(service, begun): drop for begun, drop in trickles.items()}
    while open_ones and time.monotonic() - began < REQUEST_SECONDS * 10:
        time.sleep(0.1)
        for connection, drop in list(open_ones.items()):
            try:
                connection.sendall(drop)
            except ConnectionError:
                connection.close()
                del open_ones[connection]
    for connection in open_ones:
        connection.close()
    assert time.monotonic() - began < REQUEST_SECONDS * 9


def test_a_client_that_reads_nothing_is_cut_off(service: ServiceProcess) -> None:
    """It does not hold a connection forever; unread data is dropped."""
    wait_until_free(service)
    whole = len(answer_of(connected(service, PAGE + b"Connection: close\r\n\r\n"))[2])
    connection = connected(service, (PAGE + b"\r\n") * 200)
    time.sleep(REQUEST_SECONDS * (STALL_FACTOR + 2))
    took = 0
    with connection, contextlib.suppress(ConnectionError):
        while data := connection.recv(1_000_000):
            took += len(data)
    assert took < 200 * whole


def test_a_connection_that_is_used_is_kept(service: ServiceProcess) -> None:
    """Complete requests, sequential or pipelined, are answered beyond the deadline of a single request."""
    wait_until_free(service)
    with connected(service) as connection:
        for _ in range(4):
            connection.sendall((HEAD + b"\r\n") * 2)
            answered = b""
            while answered.count(b'{"status":"ok"}') < 2:
                answered += connection.recv(65536)
            time.sleep(REQUEST_SECONDS * 0.5)


def test_more_connections_than_allowed_are_refused_and_the_others_served(service: ServiceProcess) -> None:
    """503 with Retry-After for new connections; existing ones continue; freed places are used."""
    wait_until_free(service)
    held = [connected(service, HEAD) for _ in range(CONNECTIONS)]
    late = connected(service, HEAD + b"\r\n")
    status, headers, body = answer_of(late)
    assert (status, json.loads(body)["type"]) == (503, "urn:problem:wenmai:overloaded")
    assert int(headers["retry-after"]) > 0
    held[0].sendall(b"Connection: close\r\n\r\n")
    assert answer_of(held[0])[0] == 200
    for connection in held[1:]:
        connection.close()
    wait_until_free(service)


def test_what_is_not_http_is_a_problem(service: ServiceProcess) -> None:
    """400, as problem details."""
    wait_until_free(service)
    assert problem(connected(service, b"\x16\x03\x01 hello\r\n\r\n"), 400)["type"] == "urn:problem:wenmai:bad-request"


def test_an_endless_head_is_refused(service: ServiceProcess) -> None:
    """431 as soon as the headers exceed the limit, so that they are not buffered."""
    wait_until_free(service)
    connection = connected(service, (HEAD + b"X-Large: ").ljust(MAX_HEAD_BYTES + 1, b"x"))
    assert problem(connection, 431)["type"] == "urn:problem:wenmai:head-too-large"
