"""What the console's pages cost in a store of many sessions beside one of few, in CPU time.

::

    python -m benchmarks.console [--sessions 100000] [--check] [--dir FOLDER]

Half of the sessions, and as many traces, are one user's; the others have a user each. A rare mode is that of the oldest
traces. Rounds alternate between the stores.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import median

import apsw
import httpx

from wenmai.config.settings import Settings
from wenmai.engine import open_engine
from wenmai.http.app import create_app
from wenmai.stores.records import Session, TraceRecord
from wenmai.stores.records.base import stored_fields

SESSIONS, FEW = 100_000, 100
ROUNDS, REQUESTS = 15, 10
MANY_TO_FEW = 1.5
RARE = 60
USER = "often"
_ROW = ("tenant_id", "site_id", "user_id", "version", "created_at", "updated_at", "keep_until")
_NUMBERS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"


def main() -> int:
    """Measure, print, and with ``--check`` judge."""
    parser = argparse.ArgumentParser(prog="benchmarks.console", description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=SESSIONS)
    parser.add_argument("--check", action="store_true", help=f"exit with 1 if a ratio is over {MANY_TO_FEW}")
    parser.add_argument("--dir", type=Path, metavar="FOLDER", help="where the stores are kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="wenmai-bench-", dir=arguments.dir) as folder:
        slow = asyncio.run(_measure(Path(folder), arguments.sessions))
    for page in slow if arguments.check else ():
        print(f"check: {page} costs over {MANY_TO_FEW} times as much", file=sys.stderr)
    return 1 if arguments.check and slow else 0


async def _measure(folder: Path, sessions: int) -> list[str]:
    """The pages that cost too much."""
    slow = []
    async with AsyncExitStack() as stack:
        clients = []
        for count in (FEW, sessions):
            settings = Settings(store=f"sqlite:///{folder}/{count}.db", embedder="none", sample_sites=())
            await _load(settings, count)
            engine = await stack.enter_async_context(open_engine(settings))
            transport = httpx.ASGITransport(create_app(engine))
            client = httpx.AsyncClient(transport=transport, base_url="http://localhost", headers={"X-User-ID": USER})
            clients.append(await stack.enter_async_context(client))
        for page, (path, query) in _pages().items():
            ratios, times = [], []
            for _ in range(ROUNDS):
                few, many = [await _cpu(client, path, query) for client in clients]
                ratios.append(many / few)
                times.append((few, many))
            few, many = (1e3 * median(each[which] for each in times) for which in (0, 1))
            ratio = median(ratios)
            print(f"{page}: {few:.2f} ms of CPU with {FEW} sessions, {many:.2f} ms with {sessions}: ratio {ratio:.2f}")
            if ratio > MANY_TO_FEW:
                slow.append(page)
    return slow


def _pages() -> Mapping[str, tuple[str, dict[str, str]]]:
    threads, listed, traces = "/v1/threads", "/v1/sessions", "/api/v1/npc/traces"
    everyone = {"X-User-ID": ""}
    return {
        "all threads": (threads, {"limit": "50", **everyone}),
        "all threads, a later page": (threads, {"limit": "50", "cursor": str(FEW - 60), **everyone}),
        "threads of an absent persona": (threads, {"limit": "150", "npc_id": "absent", **everyone}),
        "topics": ("/v1/topics", {"limit": "50", **everyone}),
        "sessions of a user": (listed, {"limit": "50"}),
        "a session": (f"{listed}/loaded-2", {}),
        "its messages": (f"{listed}/loaded-2/messages", {"limit": "50"}),
        "its summaries": (f"{listed}/loaded-2/summaries", {}),
        "traces of a user": (traces, {"limit": "50"}),
        "traces of a rare mode": (traces, {"limit": "50", "policy_mode": "refuse"}),
        "traces of a session": (traces, {"limit": "50", "session_id": "loaded-4"}),
        "degraded traces": (traces, {"limit": "50", "degraded": "true"}),
        "traces of a persona in a mode": (traces, {"limit": "50", "npc_id": "elder", "policy_mode": "refuse"}),
        "usage": ("/v1/usage", {"from": "2026-01-01", "to": "2026-01-30", "npc_id": "elder"}),
        "the audit log": ("/v1/audit", {}),
    }


async def _cpu(client: httpx.AsyncClient, path: str, query: dict[str, str]) -> float:
    """Seconds of CPU for one request."""
    headers = {name: value for name, value in query.items() if name.startswith("X-")}
    given = {name: value for name, value in query.items() if name not in headers}
    start = time.process_time()
    for _ in range(REQUESTS):
        request = client.build_request("GET", path, params=given)
        if headers:
            del request.headers["X-User-ID"]
        response = await client.send(request)
        response.raise_for_status()
    return (time.process_time() - start) / REQUESTS


async def _load(settings: Settings, sessions: int) -> None:
    """Write one session with a turn through the service, and copy its rows by SQL."""
    async with open_engine(settings) as engine:
        transport = httpx.ASGITransport(create_app(engine))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            body = {"npc_id": "village_elder", "query": "你好", "session_id": "pattern", "user_id": USER}
            (await client.post("/api/v1/npc/chat", json=body)).raise_for_status()
    connection = apsw.Connection(settings.store.removeprefix("sqlite:///"))
    connection.pragma("synchronous", "OFF")
    for statement in _statements(sessions):
        connection.execute(statement)
    connection.close()


def _statements(sessions: int) -> list[str]:
    numbers = _NUMBERS.format(count=sessions)
    often = f"CASE i % 2 WHEN 0 THEN '{USER}' ELSE 'user-' || i END"
    session = {
        "session_id": "'loaded-' || i",
        "incarnation": "'inc-' || i",
        "user_id": often,
        "created_at": "created_at + i",
    }
    mode = f"CASE WHEN i <= {RARE} THEN 'refuse' ELSE 'normal' END"
    trace = {
        "ref": f"'{USER}/copy-' || i",
        "trace_id": "'copy-' || i",
        "session_id": "'loaded-' || (2 * (i / 2) + 2 * (i = 1))",
        "incarnation": "'inc-' || (2 * (i / 2) + 2 * (i = 1))",
        "policy_mode": mode,
        "npc_id": "CASE i % 2 WHEN 0 THEN 'elder' ELSE 'village_elder' END",
        "created_at": "created_at + i",
    }
    threads = "SELECT incarnation, 'village_elder', 'abcd1234' FROM conversations WHERE session_id <> 'pattern'"
    columns = "seq, turn_id, role, content, timestamp, tokens, completed, given_id, name, tool_calls, tool_call_id"
    messages = f"SELECT t.thread, {columns}, metadata FROM threads t, messages m WHERE m.thread = 1 AND t.thread <> 1"  # noqa: S608
    return [
        f"{numbers} {_copied('conversations', stored_fields(Session), session)}, n WHERE session_id = 'pattern'",
        f"INSERT INTO threads (incarnation, npc_id, label) {threads}",
        f"INSERT INTO messages {messages}",
        f"{numbers} {_copied('traces', stored_fields(TraceRecord), trace)}, n WHERE session_id = 'pattern'",
    ]


def _copied(table: str, fields: Mapping[str, str], changed: Mapping[str, str]) -> str:
    """The statement that copies rows with other values."""
    names = [*dict.fromkeys((*fields, *_ROW))]
    values = ", ".join(changed.get(name, name) for name in names)
    return f"INSERT INTO {table} ({', '.join(names)}) SELECT {values} FROM {table}"  # noqa: S608 — names of ours


if __name__ == "__main__":
    sys.exit(main())
