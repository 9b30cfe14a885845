"""Whether time tells an id of another's from an absent one: ``python -m benchmarks.timing_isolation``.

A stranger asks each route for ids that exist for another user or site and for ids that do not exist, in random
order, through the whole application over a SQLite file. Printed is the probability that a request for an existing id
takes longer than one for an absent id (the area under the ROC curve): 0.5 if they cannot be told apart.
"""

import argparse
import asyncio
import gc
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import uvloop
from fastapi import FastAPI

from wenmai.auth.principal import RIGHTS
from wenmai.config.settings import Settings
from wenmai.engine import Engine, open_engine
from wenmai.http.app import create_app
from wenmai.memory.library import required
from wenmai.memory.trace_archive import trace_ref
from wenmai.scope import Scope
from wenmai.stores.records import EvidenceRecord, TraceRecord

PAIRS = 5_000
BAR = 0.03
OWNER = Scope("acme", "shop", "u1")


class Kind(NamedTuple):
    """A route, and whose ids are asked for."""

    method: str
    path: str
    body: object = None
    of: str = "session"


KINDS = (
    Kind("GET", "/v1/sessions/{}"),
    Kind("GET", "/v1/sessions/{}/messages"),
    Kind("GET", "/v1/sessions/{}/export"),
    Kind("GET", "/v1/sessions/{}/state"),
    Kind("PATCH", "/v1/sessions/{}", {"title": "mine"}),
    Kind("POST", "/v1/sessions/{}/messages", {"messages": [{"role": "user", "content": "x"}]}),
    Kind("POST", "/v1/sessions/{}/context", {"query": "x"}),
    Kind("DELETE", "/v1/sessions/{}"),
    Kind("GET", "/api/v1/npc/sessions/{}"),
    Kind("GET", "/api/v1/npc/traces/{}", of="trace"),
    Kind("GET", "/api/v1/evidence/{}", of="evidence"),
    Kind("DELETE", "/api/v1/evidence/{}", of="evidence"),
)


async def main(pairs: int, *, check: bool) -> int:
    """Print the figure of each route; returns 1 if one is outside the bar and ``check`` is set."""
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite:///{Path(folder, 'wenmai.db')}"
        settings = Settings(store=store, auth="keys", embedder="none", sample_sites=(), log_level="error")
        async with open_engine(settings) as engine:
            await fill(engine, pairs)
            app = create_app(engine)
            for kind in KINDS[:1] + KINDS[-4:-1]:
                await timed(app, kind, name(kind.of, "theirs", pairs - 1), await key_of(engine, OWNER), found=True)
            worst = 0.0
            for kind in KINDS:
                figure = await distinguishability(app, kind, pairs, await key_of(engine, stranger(kind)))
                worst = max(worst, abs(figure - 0.5))
                print(f"{figure:.3f}  {kind.method} {kind.path}", flush=True)
    print(f"{pairs} pairs of each; the largest distance from 0.5 is {worst:.3f}, the bar {BAR}")
    return int(check and worst > BAR)


async def fill(engine: Engine, count: int) -> None:
    """The owner's sessions with a message, traces and evidence."""
    memory, now = engine.memory, engine.clock()
    documents, _ = required(engine.store, engine.settings.store)
    for number in range(count):
        await memory.sessions.open(OWNER, name("session", "theirs", number))
        said = [("assistant", {"role": "user", "content": "The gate is painted blue."})]
        await memory.history.append(OWNER, name("session", "theirs", number), said)
        trace_id = name("trace", "theirs", number)
        trace = TraceRecord(ref=trace_ref(OWNER, trace_id), trace_id=trace_id, started_at=now, completed_at=now)
        await documents.put(OWNER, trace, expected=0)
    records = [
        EvidenceRecord(evidence_id=name("evidence", "theirs", at), title="Gate", text=f"Gate {at}.")
        for at in range(count)
    ]
    await engine.evidence.ingest(OWNER, records)


def stranger(kind: Kind) -> Scope:
    """Another user; another site for what a site shares."""
    return OWNER._replace(site_id="mart") if kind.of == "evidence" else OWNER._replace(user_id="u2")


async def key_of(engine: Engine, scope: Scope) -> str:
    """A key with all rights."""
    tenant_id, site_id, user_id = scope
    text, _ = await engine.api_keys.create(tenant_id=tenant_id, sites=[site_id], user_id=user_id, rights=RIGHTS)
    return text


def name(kind: str, whose: str, number: int) -> str:
    """An id; those of both groups have the same length and look alike."""
    return f"{kind}-{random.Random(f'{kind}{whose}{number}').getrandbits(64):016x}"


async def distinguishability(app: FastAPI, kind: Kind, pairs: int, key: str) -> float:
    """The area under the ROC curve of the time of requests."""
    asked = [(whose, number) for whose in ("theirs", "absent") for number in range(pairs)]
    random.shuffle(asked)
    times: dict[str, list[int]] = {"theirs": [], "absent": []}
    gc.collect()
    gc.disable()
    try:
        for at, (whose, number) in enumerate(asked):
            times[whose].append(await timed(app, kind, name(kind.of, whose, number), key))
            if at % 500 == 0:
                gc.collect()
    finally:
        gc.enable()
    return area(times["theirs"], times["absent"])


async def timed(app: FastAPI, kind: Kind, resource: str, key: str, *, found: bool = False) -> int:
    """Nanoseconds of one request, which must find the resource or not."""
    body = b"" if kind.body is None else msgspec.json.encode(kind.body)
    path = kind.path.format(resource)
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": kind.method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            (b"authorization", f"Bearer {key}".encode()),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8001),
    }
    status = 0

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        nonlocal status
        status = message.get("status", status)

    started = time.perf_counter_ns()
    await app(scope, receive, send)
    elapsed = time.perf_counter_ns() - started
    assert status == (200 if found else 404), (kind, resource, status)
    return elapsed


def area(first: Sequence[int], second: Sequence[int]) -> float:
    """The probability that one of the first is larger than one of the second; equal ones count half."""
    ordered = np.sort(np.asarray(second))
    below = np.searchsorted(ordered, first, side="left")
    up_to = np.searchsorted(ordered, first, side="right")
    return float((below + up_to).mean() / 2 / len(ordered))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--check", action="store_true", help="end with 1 if a figure is outside the bar")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:  # as in the service
        sys.exit(runner.run(main(given.pairs, check=given.check)))
