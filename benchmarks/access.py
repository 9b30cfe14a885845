"""What authentication and rate limits cost: ``python -m benchmarks.access``.

CPU time of the check of an API key and of tokens by algorithm, and of a whole request for a session over a SQLite
file, with a key and with a token, with and without a rate limit, in the process and on a Redis server, whose own CPU is
not counted. Medians of rounds in turns, in microseconds, and the ratio to a request with a key and no limit.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from benchmarks.servers import redis
from benchmarks.timing_isolation import Kind, timed
from wenmai.auth.principal import RIGHTS
from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.http.app import create_app
from wenmai.scope import Scope

ROUNDS, CALLS = 31, 100
RATE = "900000/second"
SCOPE = " ".join(f"wenmai:{right}" for right in RIGHTS)
ISSUER, AUDIENCE = "https://login.example", "wenmai"
OWNER = Scope("acme", "shop", "u1")
SESSION = Kind("GET", "/v1/sessions/{}")
MADE: dict[str, tuple[Any, Any]] = {
    "RS256": (lambda: rsa.generate_private_key(65537, 2048), RSAAlgorithm),
    "ES256": (lambda: ec.generate_private_key(ec.SECP256R1()), ECAlgorithm),
    "EdDSA": (ed25519.Ed25519PrivateKey.generate, OKPAlgorithm),
}

Call = Callable[[], Awaitable[object]]


async def main() -> None:
    """Print the table."""
    async with AsyncExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="wenmai-bench-")))
        keys = {algorithm: make() for algorithm, (make, _) in MADE.items()}
        published = [
            {**MADE[name][1].to_jwk(key.public_key(), as_dict=True), "kid": name} for name, key in keys.items()
        ]
        (folder / "keys.json").write_text(json.dumps({"keys": published}), encoding="utf-8")
        tokens = {name: jwt.encode(claims(), key, name, headers={"kid": name}) for name, key in keys.items()}
        hot = opened.enter_context(redis(None))
        settings: dict[str, dict[str, str]] = {
            "": {},
            ", limit in the process": {"rate_limit": RATE},
            ", Redis cache": {"hot": hot},
            ", Redis cache, limit on Redis": {"hot": hot, "rate_limit": RATE},
        }
        engines = {what: await opened.enter_async_context(engine_in(folder, **each)) for what, each in settings.items()}
        plain = engines[""]
        key, _ = await plain.api_keys.create(
            tenant_id=OWNER.tenant_id, sites=[OWNER.site_id], user_id=OWNER.user_id, rights=RIGHTS
        )
        await plain.memory.sessions.open(OWNER, "session-1")
        check = plain.authentication.principal
        calls: dict[str, Call] = {"check of a key": lambda: check(key)}
        for name, text in tokens.items():
            calls[f"check of a token, {name}"] = lambda text=text: check(text)  # type: ignore[misc]
        for what, engine in engines.items():
            calls[f"request with a key{what}"] = request(engine, key)
        calls["request with a token, RS256"] = request(plain, tokens["RS256"])
        await report(calls)


def engine_in(folder: Path, **changes: Any) -> Any:
    """An engine over the folder's file that accepts keys and tokens."""
    return open_engine(
        Settings(
            store=f"sqlite:///{folder / 'wenmai.db'}",
            auth="keys,jwt",
            jwt_keys=str(folder / "keys.json"),
            jwt_issuer=ISSUER,
            jwt_audience=AUDIENCE,
            embedder="none",
            sample_sites=(),
            log_level="error",
            **changes,
        )
    )


def claims() -> dict[str, object]:
    """Of a token of the owner's."""
    tenant_id, site_id, user_id = OWNER
    named = {
        "tenant": tenant_id,
        "sites": [site_id],
        "sub": user_id,
        "scope": " ".join(f"wenmai:{each}" for each in RIGHTS),
    }
    return {"iss": ISSUER, "aud": AUDIENCE, "exp": int(time.time()) + 3600, **named}


def request(engine: Engine, text: str) -> Call:
    """Reads the owner's session."""
    app = create_app(engine)
    return lambda: timed(app, SESSION, "session-1", text, found=True)


async def report(calls: dict[str, Call]) -> None:
    """Measure them in turns, and print."""
    took: dict[str, list[float]] = {what: [] for what in calls}
    for _ in range(ROUNDS):
        for what, call in calls.items():
            started = time.process_time()
            for _ in range(CALLS):
                await call()
            took[what].append(1e6 * (time.process_time() - started) / CALLS)
    base = median(took["request with a key"])
    for what, times in took.items():
        ratio = f"  {median(times) / base:.2f}" if what.startswith("request") else ""
        print(f"{median(times):7.1f} µs CPU  {what}{ratio}")


if __name__ == "__main__":
    asyncio.run(main())
