"""An identity provider for tests: its keys, the server of their public halves, and the tokens that it signs."""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

ISSUER, AUDIENCE = "https://login.example", "wenmai"


class IdentityProvider:
    """Signs tokens with an RSA and an EC key.

    Attributes:
        url: of the public keys.
        reads: how often they were read.
        status, location: of the response.
        published: the public keys, by id.
    """

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/keys"
        self.reads = 0
        self.status = 200
        self.location = ""
        self._private: dict[str, tuple[Any, str]] = {}
        self.published: dict[str, dict[str, Any]] = {}
        self.add("rsa-1", rsa.generate_private_key(public_exponent=65537, key_size=2048), "RS256")
        self.add("ec-1", ec.generate_private_key(ec.SECP256R1()), "ES256")

    def add(self, key_id: str, key: Any, algorithm: str) -> None:
        """Sign with this key too, and publish it."""
        self._private[key_id] = (key, algorithm)
        to_jwk = RSAAlgorithm.to_jwk if algorithm.startswith("R") else ECAlgorithm.to_jwk
        self.published[key_id] = {**to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig"}

    def token(self, key_id: str = "rsa-1", **claims: Any) -> str:
        """A valid token of user ``u1`` of ``yan/hall`` with all rights to read; claims that are None are left out."""
        now = time.time()
        given = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "u1",
            "tenant": "yan",
            "sites": ["hall"],
            "scope": "wenmai:read",
            "iat": now,
            "exp": now + 300,
            **claims,
        }
        key, algorithm = self._private[key_id]
        kept = {name: value for name, value in given.items() if value is not None}
        return jwt.encode(kept, key, algorithm=algorithm, headers={"kid": key_id})

    @property
    def jwks(self) -> Mapping[str, Any]:
        """What it publishes."""
        return {"keys": [*self.published.values()]}


@contextmanager
def identity_provider() -> Iterator[IdentityProvider]:
    """A running identity provider."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider.reads += 1
            body = json.dumps(provider.jwks).encode()
            self.send_response(provider.status)
            self.send_header("Location", provider.location)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider = IdentityProvider(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
