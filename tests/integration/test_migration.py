"""A store of an older schema is upgraded in place, completely or not at all; a newer one is refused."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from time import sleep

import pytest
from cli_process import SECONDS, Command, environment, wenmai
from old_stores import MESSAGES, OldPostgresql, OldSqlite, OldStore, contents_digest, message
from service_process import ServiceProcess

from postgres_server import PostgresServer
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Store
from wenmai.stores.identity import bound_session
from wenmai.stores.opening import open_store, schema_at
from wenmai.stores.records import (
    IdempotentTurn,
    Lease,
    NewMessage,
    Preferences,
    Record,
    Session,
    TraceRecord,
    UsageRecord,
)
from wenmai.stores.sql.migrations import REVISION
from wenmai.stores.sqlite.schema import SCHEMA_VERSION
from wenmai.stores.upgrades import Schema

pytestmark = pytest.mark.xdist_group("postgresql")

SESSIONS = 200
KNOWN = {"sqlite": SCHEMA_VERSION, "postgresql": int(REVISION)}
"""The newest version of each backend's schema."""

STUCK = {
    "sqlite": """
from wenmai.stores.sqlite import upgrades
class Stuck(tuple):
    def __iter__(self):
        yield from super().__iter__()
        print("stuck", flush=True)
        time.sleep(600)
upgrades.UPGRADES = {2: Stuck(upgrades.UPGRADES[2])}
""",
    "postgresql": """
from wenmai.stores.postgresql import schema
whole = schema.upgrade_script
def stuck(found):
    print("stuck", flush=True)
    return whole(found) + "; SELECT pg_sleep(600)"
schema.upgrade_script = stuck
""",
}
"""Patches that block a process after the last statement of the step to version 2, before its commit."""

RUN = "import sys, time\n{}\nfrom wenmai.cli.main import main\nsys.argv[1:] = ['migrate', '--store', {!r}]\nmain()"


@pytest.fixture(params=["sqlite", "postgresql"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of each backend with tables."""
    return str(request.param)


@pytest.fixture
def known(backend: str) -> int:
    """The newest version of its schema."""
    return KNOWN[backend]


@pytest.fixture
def old_store(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> OldStore:
    """A store of version 1 without sessions."""
    if backend == "sqlite":
        return OldSqlite(tmp_path / "wenmai.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return OldPostgresql(server.database())


@pytest.fixture
def new_url(backend: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a store that does not exist yet."""
    if backend == "sqlite":
        return f"sqlite:///{tmp_path}/new.db"
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.database()


@pytest.fixture
def stuck(backend: str, old_store: OldStore) -> Iterator[subprocess.Popen[str]]:
    """A process that has run the step to version 2 and is blocked before its commit."""
    script = RUN.format(STUCK[backend], old_store.url)
    process = subprocess.Popen(
        [sys.executable, "-c", script], env=environment(), stdout=subprocess.PIPE, encoding="utf-8"
    )
    assert process.stdout is not None
    while process.stdout.readline() != "stuck\n":
        assert process.poll() is None
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
    while backend == "postgresql" and old_store.rows(asleep) != [(1,)]:
        assert process.poll() is None
    yield process
    process.kill()
    process.communicate()


def test_a_store_of_version_1_is_upgraded_in_place(old_store: OldStore, known: int, tmp_path: Path) -> None:
    """`wenmai migrate` keeps 20,000 messages unchanged and reports its steps; a second run does nothing."""
    old_store.fill(SESSIONS)
    before = contents_digest(old_store)
    done = wenmai("migrate", "--store", old_store.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    first, *steps, last = done.stdout.splitlines()
    assert first.endswith(f"schema 1, to be schema {known}")
    for reached, begun, ended in zip(range(2, known + 1), steps[::2], steps[1::2], strict=True):
        held = f"schema {reached - 1} → {reached}, 200 sessions, 20,000 messages: "
        assert begun == f"{held}begun"
        assert re.fullmatch(rf"{held}done in \d+\.\d\d s", ended)
    assert re.search(rf"schema {known} after \d+\.\d\d s$", last)
    assert (old_store.version(), contents_digest(old_store)) == (known, before)
    again = wenmai("migrate", "--store", old_store.url, folder=tmp_path)
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)
    assert again.stdout.endswith(f"schema {known}, nothing to do\n")
    asyncio.run(_use(old_store.url))


async def _use(url: str) -> None:
    """Every message is read as written; a thread continues; records of later versions can be stored."""
    async with open_store(url) as store:
        assert store.logs is not None
        assert store.documents is not None
        for number in range(1, SESSIONS + 1):
            kept = await store.logs.read(Scope(), ThreadKey(f"session-{number}", "elder"), limit=MESSAGES)
            assert kept == [message(number, seq) for seq in range(1, MESSAGES + 1)]
        new = await store.logs.append(
            Scope(), ThreadKey("session-1", "elder"), [NewMessage(role="user", content="还在吗？")]
        )
        assert new.messages[0].seq == MESSAGES + 1
        usage = UsageRecord(ref="user/u/2026-01-02/0", day="2026-01-02", kind="user", of="u", calls=3, cost_usd=0.25)
        await store.documents.put(Scope(), usage)
        page = await store.documents.list(Scope(), UsageRecord, where={"day": "2026-01-02"})
        assert [stored.record for stored in page.items] == [usage]


_FORMER_OWNER = (
    """INSERT INTO preferences (tenant_id, site_id, user_id, session_id, verbosity, tone, language, interest_tags,
      chosen, sources, version, created_at, updated_at)
    SELECT tenant_id, site_id, 'former', session_id, 'brief', 'casual', 'zh', '["炭画"]', '[]', '{}', 1, created_at,
      updated_at FROM conversations""",
    """INSERT INTO traces (tenant_id, site_id, user_id, trace_id, started_at, completed_at, session_id, npc_id, turn_id,
      request_input, tool_calls, intent, evidence_ids, policy_mode, policy_reason, blocks, answer, model, prompt_tokens,
      completion_tokens, cost_usd, latency_ms, degraded, details, version, created_at, updated_at)
    SELECT tenant_id, site_id, 'former', 'trace-' || session_id, created_at, created_at, session_id, 'elder', 1, '{}',
      '[]', '', '[]', 'normal', '', '[]', '', '', 0, 0, 0, 0, '[]', '{}', 1, created_at, updated_at
    FROM conversations""",
    """INSERT INTO idempotent_turns (tenant_id, site_id, user_id, idempotency_key, fingerprint, session_id, holder,
      attempt_expires_at, response, version, created_at, updated_at)
    SELECT tenant_id, site_id, 'former', 'key-' || session_id, '', session_id, '', created_at, '{"answer": ""}', 1,
      created_at, updated_at FROM conversations""",
)
"""Records of a former user in a store of version 1, where another user has reused the session id since."""


def test_records_of_a_former_owner_of_a_session_id_are_removed(old_store: OldStore, tmp_path: Path) -> None:
    """They are not bound to the new session: neither visible to the former user, nor in the way of the new one."""
    old_store.fill(2)
    for sql in _FORMER_OWNER:
        old_store.rows(sql)
    wenmai("migrate", "--store", old_store.url, folder=tmp_path)
    for table in ("preferences", "traces", "idempotent_turns"):
        assert old_store.rows(f"SELECT user_id FROM {table}") == [], table  # noqa: S608 — own


async def test_bound_records_are_migrated(old_store: OldStore) -> None:
    """Preferences, answers and traces are bound to their session's incarnation, those of deleted sessions removed."""
    await asyncio.to_thread(old_store.fill, 2)
    for session_id in ("session-1", "session-2", "gone", ""):
        await asyncio.to_thread(old_store.add_bound_records, session_id)
    scope = Scope()
    bound: list[tuple[type[Record], str]] = [
        (Preferences, "{}"),
        (IdempotentTurn, "key-{}"),
        (TraceRecord, "anonymous/trace-{}"),
    ]
    async with open_store(old_store.url) as store:
        assert store.documents is not None
        for session_id, exists in (("session-1", True), ("session-2", True), ("gone", False)):
            session = await store.documents.get(scope, Session, session_id)
            for of, key in bound:
                found = await store.documents.get(scope, of, key.format(session_id))
                assert (found is not None) == exists
                if found is not None and session is not None:
                    assert bound_session(found.record) == (session_id, session.record.incarnation)
        assert [await _count(store, of) for of, _ in bound] == [2, 2, 3]
        assert await _count(store, Lease) == 0
        kept = await store.documents.get(scope, Preferences, "session-1")
        assert kept is not None
        assert (kept.version, kept.record.tone, kept.record.interest_tags) == (3, "casual", ["祠堂"])
        turn = await store.documents.get(scope, IdempotentTurn, "key-session-1")
        assert turn is not None
        assert (turn.record.asked_session, turn.record.response) == ("session-1", {"answer": "孝"})
        assert turn.record.attempt_id
        await store.documents.delete(scope, Session, "session-1")
        assert [await _count(store, of) for of, _ in bound] == [1, 1, 2]
        lone = await store.documents.get(scope, TraceRecord, "anonymous/trace-")
        assert lone is not None
        assert (lone.record.trace_id, lone.record.answer, lone.record.incarnation) == ("trace-", "孝悌", "")
    left = "SELECT (SELECT count(*) FROM preferences), (SELECT count(*) FROM traces)"
    assert await asyncio.to_thread(old_store.rows, left) == [(1, 2)]


async def _count(store: Store, of: type[Record]) -> int:
    assert store.documents is not None
    return len((await store.documents.list(Scope(), of)).items)


def test_an_export_is_the_same_before_and_after(old_store: OldStore, new_url: str, tmp_path: Path) -> None:
    """The export of an upgraded store equals, byte by byte, that of a new store into which it was imported."""
    old_store.fill(3)
    out = [wenmai("export", "--store", old_store.url, "-o", "old.jsonl", folder=tmp_path)]
    out.append(wenmai("import", "old.jsonl", "--store", new_url, folder=tmp_path))
    out.append(wenmai("export", "--store", new_url, "-o", "new.jsonl", folder=tmp_path))
    assert [done.returncode for done in out] == [0, 0, 0]
    assert (tmp_path / "old.jsonl").read_bytes().count(b"\n") == 3 + 3 * MESSAGES
    assert (tmp_path / "old.jsonl").read_bytes() == (tmp_path / "new.jsonl").read_bytes()


def test_an_upgraded_store_has_the_tables_of_a_new_one(
    old_store: OldStore, new_url: str, known: int, tmp_path: Path
) -> None:
    """A missing or differing upgrade step is detected."""
    assert wenmai("migrate", "--store", old_store.url, folder=tmp_path).returncode == 0
    made = wenmai("migrate", "--store", new_url, folder=tmp_path)
    assert (made.returncode, f": new, to be schema {known}\n" in made.stdout) == (0, True)
    fresh = type(old_store).__new__(type(old_store))
    vars(fresh).update(url=new_url, _path=tmp_path / "new.db")
    described = {
        "sqlite": "SELECT m.name, t.name, t.type, t.\"notnull\", t.pk, iif(m.type = 'table', '', m.sql) "
        "FROM sqlite_schema m LEFT JOIN pragma_table_info(m.name) t ORDER BY 1, 2",
        "postgresql": "SELECT table_name, column_name, data_type, is_nullable, collation_name, column_default "
        "FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1, 2",
    }[new_url.partition(":")[0]]
    assert old_store.tables() == fresh.tables()
    assert old_store.rows(described) == fresh.rows(described)


def test_a_process_killed_in_the_middle_leaves_version_1(
    stuck: subprocess.Popen[str], known: int, old_store: OldStore, tmp_path: Path
) -> None:
    """After SIGKILL before the commit nothing has changed or is locked, and the next process continues."""
    before = old_store.tables()
    stuck.send_signal(signal.SIGKILL)
    stuck.wait(SECONDS)
    assert (old_store.version(), old_store.tables()) == (1, before)
    assert "usage" not in before
    done = wenmai("migrate", "--store", old_store.url, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert old_store.version() == known


@pytest.mark.parametrize("delay", [0.03, 0.08, 0.15])
def test_a_process_killed_at_any_moment_leaves_a_whole_version(
    delay: float, old_store: OldStore, known: int, tmp_path: Path
) -> None:
    """The tables are exactly those of the version, and the next start uses the store."""
    old_store.fill(20)
    before = contents_digest(old_store)
    command = Command("migrate", "--store", old_store.url, folder=tmp_path)
    sleep(delay)
    command.program.kill()
    command.done()
    tables = old_store.tables()
    left = old_store.version(), "usage" in tables
    assert left in ((1, False), *((version, True) for version in range(2, known + 1)))
    assert wenmai("migrate", "--store", old_store.url, folder=tmp_path).returncode == 0
    assert (old_store.version(), contents_digest(old_store)) == (known, before)


def test_of_processes_that_start_at_once_one_upgrades(old_store: OldStore, known: int, tmp_path: Path) -> None:
    """All succeed, and each step is reported once."""
    old_store.fill(100)
    started = [Command("migrate", "--store", old_store.url, folder=tmp_path) for _ in range(4)]
    ended = [command.done() for command in started]
    assert [(done.returncode, done.stderr) for done in ended] == [(0, "")] * 4
    assert sum(done.stdout.count("done in") for done in ended) == known - 1
    assert old_store.version() == known


@pytest.mark.parametrize(
    "command", [("migrate",), ("serve", "--port", "0"), ("serve", "--port", "0", "--workers", "3")]
)
def test_a_newer_store_is_refused_with_what_to_do(
    command: tuple[str, ...], old_store: OldStore, known: int, tmp_path: Path
) -> None:
    """One line names the setting, both versions and what to do; nothing is changed."""
    old_store.rows(old_store.newer)
    before = old_store.tables()
    done = wenmai(*command, "--store", old_store.url, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.match(rf"wenmai: store: .* has schema version 99, this Wenmai knows up to {known}: upgrade", done.stderr)
    assert (old_store.version(), old_store.tables()) == (99, before)


@pytest.mark.parametrize("workers", ["1", "3"])
def test_serve_upgrades_and_logs_it(workers: str, old_store: OldStore, tmp_path: Path) -> None:
    """The service logs the step once, with the number of sessions and messages, before it listens."""
    old_store.fill(20)
    service = ServiceProcess("--workers", workers, "--store", old_store.url, log=tmp_path / "log")
    service.remove()
    steps = [line for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines() if "schema 1 → 2" in line]
    assert [line.split(":")[0] for line in steps] == ["INFO wenmai.stores.upgrades"] * 2
    assert "20 sessions, 2,000 messages: begun" in steps[0]
    assert "done in" in steps[1]


async def test_reading_the_schema_changes_nothing(
    old_store: OldStore, new_url: str, known: int, tmp_path: Path
) -> None:
    """`wenmai doctor` reports the pending upgrade and how to run it, and does not change the store."""
    assert await schema_at(old_store.url) == Schema(found=1, known=known)
    assert await schema_at(new_url) == Schema(found=0, known=known)
    assert await schema_at("memory://") is None
    examined = await asyncio.to_thread(wenmai, "doctor", "--store", old_store.url, folder=tmp_path)
    (line,) = [line for line in examined.stdout.splitlines() if "(schema 1)" in line]
    assert line.startswith("warn store")
    assert line.endswith(f"the next start upgrades it to schema {known}; to upgrade now, run: wenmai migrate")
    assert await asyncio.to_thread(old_store.version) == 1


def test_a_store_without_tables_has_nothing_to_migrate(tmp_path: Path) -> None:
    """The command accepts any store, so a deployment can always run it."""
    done = wenmai("migrate", "--store", "memory://", folder=tmp_path)
    assert (done.returncode, done.stdout) == (0, "memory://: has no schema, nothing to do\n")
