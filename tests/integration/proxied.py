"""Requests through the door of the deployment, and the keys with which the tests come."""

import socket
import ssl

import httpx

from caddy_server import CaddyServer

ALICE, SHOP, EDITOR, RIVAL = "a" * 64, "5" * 64, "e0" * 32, "f" * 64
KEYS = f"""
# who may come in
{ALICE} acme shop alice talk
{SHOP} acme shop * talk
{EDITOR} acme shop editors manage
{RIVAL} rival shop alice manage
"""


def client_of(proxy: CaddyServer, key: str = "", **headers: str) -> httpx.Client:
    """A client with this key; keywords are further headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if key:
        named["Authorization"] = f"Bearer {key}"
    trusted = ssl.create_default_context(cafile=proxy.certificate.authority)
    return httpx.Client(base_url=proxy.url, verify=trusted, headers=named, trust_env=False, timeout=30)


def sent(proxy: CaddyServer, target: str, *headers: str, key: str = ALICE, method: str = "GET") -> bytes:
    """The whole answer to a request whose target and headers are sent as they are written."""
    lines = [f"{method} {target} HTTP/1.1", "Host: wenmai.example", f"Authorization: Bearer {key}", *headers]
    if not any(line.startswith("Connection:") for line in headers):
        lines.append("Connection: close")
    trusted = ssl.create_default_context(cafile=proxy.certificate.authority)
    with (
        socket.create_connection(("127.0.0.1", proxy.port), 30) as plain,
        trusted.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))


def status_of(answer: bytes) -> int:
    """The status of an answer."""
    return int(answer.split(b" ", 2)[1])


def is_problem(answer: httpx.Response, status: int) -> bool:
    """Whether the answer is problem details of that status."""
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == answer.status_code
    return answer.status_code == status
