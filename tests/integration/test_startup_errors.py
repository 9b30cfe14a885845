"""Startup errors are one line that names the setting; later failures are a 503."""

import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from cli_process import SECONDS, environment, wenmai
from old_servers import OldPostgresql, OldRedis, Silent, served
from service_process import ServiceProcess

from postgres_server import LOCKED_USER, PASSWORD, PostgresServer
from redis_server import RedisServer, free_port
from wenmai.stores.sqlite.schema import connect

pytestmark = pytest.mark.xdist_group("postgresql")

WITHOUT = "import sys\nsys.modules.update(dict.fromkeys({!r}))"
"""Python code that hides packages, as if not installed."""

FULL = "import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))"
"""Python code that makes every write to a file fail, as on a full disk."""

UNPRIVILEGED = """
import ctypes, os, sys
if os.geteuid() == 0 and os.environ.pop("PRIVILEGED", "yes"):
    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        if ctypes.CDLL(None, use_errno=True).prctl(24, capability, 0, 0, 0):  # PR_CAPBSET_DROP
            sys.exit("cannot give up privileges")
    os.execv(sys.executable, [sys.executable, "-m", "wenmai", *sys.argv[1:]])
"""
"""Python code that drops capabilities, so that file modes apply to root too."""


def start(url: str, folder: Path, *, first: str = "", options: tuple[str, ...] = ()) -> tuple[int, str]:
    """Run ``wenmai serve``, after the code ``first`` if given; its exit status and its one line of stderr."""
    command = "serve", "--port", "0", "--store", url, *options
    if first:
        done = subprocess.run(
            [sys.executable, "-c", f"{first}\nfrom wenmai.cli.main import main\nmain()", *command],
            cwd=folder,
            env=environment(PYTHONDONTWRITEBYTECODE="1"),
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    else:
        done = wenmai(*command, folder=folder)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "ftp://u:hidden@host/db",
            r"no store for 'ftp://u:\*\*\*@host/db'; known schemes: elasticsearch, elasticsearch\+https, memory",
        ),
        ("postgresql:/u:hidden@host/db", "known schemes"),
        ("wenmai.db", "no store for 'wenmai.db'; known schemes"),
        ("sqlite://", "sqlite:///relative.db"),
        ("sqlite:///nowhere/wenmai.db", "nowhere/wenmai.db: unable to open.*does its folder exist"),
        ("postgresql://u:hidden@host:port/db", "special characters escaped"),
        ("postgresql://u:hid/den@host/db", "special characters escaped"),
        ("postgresql://u:hidden@host/db?max_connections=0", "'0' is not a number from 1"),
        ("postgresql://host/db?password=hidden&sslmode=perhaps", "a URL like"),
        ("redis://:hidden@:6379", r"redis://:\*\*\*@:6379"),
        ("redis://u:hidden@host:99999", "[Pp]ort"),
        ("redis://u:hidden@host/first", "/database"),
    ],
)
def test_a_wrong_url(url: str, expected: str, tmp_path: Path) -> None:
    """The error describes the problem and a valid URL, without the password; nothing is created."""
    status, line = start(url, tmp_path)
    assert status in (1, 2)
    assert re.match(r"wenmai: store[:. ]", line)
    assert re.search(expected, line)
    assert "hid" not in line
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "missing", "extra"),
    [
        ("postgresql://u:hidden@127.0.0.1:1/db", ["asyncpg"], "postgresql"),
        ("redis://u:hidden@127.0.0.1:1", ["redis"], "redis"),
    ],
)
def test_a_missing_driver(url: str, missing: list[str], extra: str, tmp_path: Path) -> None:
    """The error names the package and the extra that installs it."""
    status, line = start(url, tmp_path, first=WITHOUT.format(missing))
    assert (status, line) == (1, f"wenmai: store: {missing[0]} is not installed; pip install 'wenmai[{extra}]'\n")


def test_missing_migrations(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """The same for Alembic, which creates the tables."""
    status, line = start(postgres_server.database(), tmp_path, first=WITHOUT.format(["alembic"]))
    assert (status, line) == (1, "wenmai: store: alembic is not installed; pip install 'wenmai[postgresql]'\n")


@pytest.mark.parametrize("user", [f"{LOCKED_USER}:wr0ng", LOCKED_USER])
def test_a_wrong_password_of_postgresql(user: str, postgres_server: PostgresServer, tmp_path: Path) -> None:
    """The error is about user and password, without showing them."""
    status, line = start(postgres_server.url("postgres", user), tmp_path)
    assert status == 2
    assert line.startswith("wenmai: store: ")
    assert "user and password the server accepts" in line
    assert "wr0ng" not in line


@pytest.mark.parametrize("user", ["", ":wr0ng-s3cret@"])
def test_a_wrong_password_of_redis(user: str, tmp_path: Path) -> None:
    """The same, with the server's message."""
    server = RedisServer("--requirepass", "s3cret")
    server.start()
    try:
        status, line = start(f"redis://{user}127.0.0.1:{server.port}", tmp_path)
    finally:
        server.stop()
    assert status == 1
    assert re.match(r"wenmai: store: redis is unavailable: 127\.0\.0\.1:\d+: .*(?i:auth|password)", line)
    assert "s3cret" not in line


@pytest.mark.parametrize("options", [(), ("--workers", "3")], ids=["one", "three"])
@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_an_unreachable_server(scheme: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """The error names the server, and is printed once for any number of workers."""
    port = free_port()
    status, line = start(f"{scheme}://u:hidden@127.0.0.1:{port}/0", tmp_path, options=options)
    assert status == 1
    assert line.startswith(f"wenmai: store: {scheme} is unavailable: ")
    assert f"127.0.0.1:{port}" in line
    assert "hidden" not in line


@pytest.mark.parametrize("scheme", ["postgresql", "redis"])
def test_a_server_that_never_answers(scheme: str, tmp_path: Path) -> None:
    """The start times out."""
    with served(Silent) as port:
        status, line = start(f"{scheme}://u:hidden@127.0.0.1:{port}/0?connect_timeout=1", tmp_path)
    assert status == 1
    assert line.startswith(f"wenmai: store: {scheme} is unavailable: ")
    assert "in time" in line


def test_a_postgresql_that_is_too_old(tmp_path: Path) -> None:
    """The error has its version and the oldest supported one (with a fake server)."""
    with served(OldPostgresql) as port:
        status, line = start(f"postgresql://u:hidden@127.0.0.1:{port}/db", tmp_path)
    assert status == 2
    assert f"wenmai: store: 'postgresql://127.0.0.1:{port}/db' is not a server of PostgreSQL 14 or later" in line
    assert "(it is 13.14)" in line


def test_a_redis_that_is_too_old(tmp_path: Path) -> None:
    """The same for Redis (with a fake server)."""
    with served(OldRedis) as port:
        status, line = start(f"redis://127.0.0.1:{port}", tmp_path)
    assert (status, line) == (
        1,
        f"wenmai: store: redis is unavailable: 127.0.0.1:{port}: it is Redis 5.0.14; version 6 or later is needed\n",
    )


@pytest.mark.parametrize("prepared", [True, False])
def test_a_read_only_postgresql(prepared: bool, postgres_server: PostgresServer, tmp_path: Path) -> None:  # noqa: FBT001 — a parameter
    """A standby or read-only database is detected at startup."""
    url = postgres_server.database()
    if prepared:
        assert wenmai("migrate", "--store", url, folder=tmp_path).returncode == 0
    status, line = start(f"{url}&default_transaction_read_only=on", tmp_path)
    assert status == 1
    assert re.match(r"wenmai: store: postgresql is unavailable: postgresql://.* is read-only", line)


@pytest.mark.parametrize(
    ("rights", "expected"),
    [
        ("", "create tables: permission denied"),
        ("GRANT SELECT ON ALL TABLES IN SCHEMA public TO {}", "GRANT SELECT, INSERT, UPDATE, DELETE ON .*messages"),
    ],
    ids=["none", "reading"],
)
def test_a_postgresql_user_who_may_not_write(
    rights: str, expected: str, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    """The error names the missing privileges."""
    url = postgres_server.database()
    assert wenmai("migrate", "--store", url, folder=tmp_path).returncode == 0
    name = url.partition("?")[0].rpartition("/")[2]
    postgres_server.sql(f"\\c {name}\n{rights.format(LOCKED_USER)}")
    status, line = start(postgres_server.url(name, f"{LOCKED_USER}:{quote(PASSWORD, safe='')}"), tmp_path)
    assert status == 2
    assert line.startswith("wenmai: store: ")
    assert re.search(expected, line)
    assert PASSWORD not in line


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_read_only_sqlite_file(what: str, tmp_path: Path) -> None:
    """The error names the file and suggests checking permissions."""
    folder = tmp_path / "data"
    folder.mkdir()
    file = folder / "wenmai.db"
    assert wenmai("migrate", "--store", f"sqlite:///{file}", folder=tmp_path).returncode == 0
    (file if what == "file" else folder).chmod(0o444 if what == "file" else 0o555)
    try:
        status, line = start(f"sqlite:///{file}", tmp_path, first=UNPRIVILEGED)
    finally:
        folder.chmod(0o755)
    if "cannot give up privileges" in line:
        pytest.skip("root may write everything here, and cannot give that up")
    assert status == 1
    assert line.startswith(f"wenmai: store: sqlite is unavailable: {file}: ")
    assert "may this process write" in line


def test_a_full_disk(tmp_path: Path) -> None:
    """The error suggests a full disk when the store cannot be created."""
    status, line = start(f"sqlite:///{tmp_path}/wenmai.db", tmp_path, first=FULL)
    assert status == 1
    assert line.startswith(f"wenmai: store: sqlite is unavailable: {tmp_path}/wenmai.db: ")
    assert "is the disk full" in line


def test_a_full_disk_under_a_store_in_use(tmp_path: Path) -> None:
    """The same for an existing store, also if another process has it open, so that no new file is needed."""
    file = tmp_path / "wenmai.db"
    assert wenmai("migrate", "--store", f"sqlite:///{file}", folder=tmp_path).returncode == 0
    other = connect(file)
    other.execute("CREATE TABLE other (a)")
    status, line = start(f"sqlite:///{file}", tmp_path, first=FULL)
    other.close()
    assert status == 1
    assert line.startswith(f"wenmai: store: sqlite is unavailable: {file}: ")
    assert "is the disk full" in line


@contextmanager
def service(url: str, folder: Path) -> Iterator[tuple[httpx.Client, int]]:
    """A client of a running service with a session of one message, and the process id."""
    process = ServiceProcess("--store", url, log=folder / "log")
    try:
        with httpx.Client(base_url=process.url, timeout=10) as client:
            assert client.post("/v1/sessions", json={"session_id": "kept"}).status_code == 201
            assert _append(client).is_success
            yield client, process.pid
    finally:
        process.remove()


def _append(client: httpx.Client) -> httpx.Response:
    message = {"role": "user", "content": "孝悌为本", "npc_id": "ancestor_yan"}
    return client.post("/v1/sessions/kept/messages", json={"messages": [message]})


def _check_writes_rejected_and_reads_served(client: httpx.Client) -> None:
    """Each write is a 503 with Retry-After; existing data can be read."""
    question = {"npc_id": "ancestor_yan", "query": "家训第一条是什么？", "session_id": "kept"}
    owner = {"tenant_id": "default", "site_id": "default"}
    for refused in (
        _append(client),
        client.post("/v1/sessions", json={"session_id": "new"}),
        client.post("/api/v1/npc/chat", json=owner | question),
    ):
        assert refused.status_code == 503, refused.text
        assert int(refused.headers["Retry-After"]) > 0
        assert refused.json()["type"] == "urn:problem:wenmai:store-unavailable"
    read = client.get("/v1/sessions/kept/messages", params={"npc_id": "ancestor_yan"})
    assert [each["content"] for each in read.json()["messages"]] == ["孝悌为本"]
    assert client.get("/v1/sessions/kept").status_code == 200


def test_a_disk_that_fills_at_run_time(tmp_path: Path) -> None:
    """Writes are 503 with Retry-After, reads continue; with free space writes succeed again, and nothing is lost."""
    with service(f"sqlite:///{tmp_path}/wenmai.db", tmp_path) as (client, process):
        before = resource.prlimit(process, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        _check_writes_rejected_and_reads_served(client)
        resource.prlimit(process, resource.RLIMIT_FSIZE, before)
        assert _append(client).is_success
        read = client.get("/v1/sessions/kept/messages", params={"npc_id": "ancestor_yan"})
        assert [each["seq"] for each in read.json()["messages"]] == [1, 2]


def test_a_database_that_becomes_read_only_at_run_time(postgres_server: PostgresServer, tmp_path: Path) -> None:
    """The same for PostgreSQL, as after a failover to a standby."""
    with service(postgres_server.store(), tmp_path) as (client, _):
        _read_only(postgres_server, "on")
        try:
            _check_writes_rejected_and_reads_served(client)
        finally:
            _read_only(postgres_server, "off")
        assert _append(client).is_success


def _read_only(server: PostgresServer, state: str) -> None:
    """Set the default transaction mode of the server."""
    off = "SET default_transaction_read_only = off;"
    server.sql(f"{off} ALTER SYSTEM SET default_transaction_read_only = {state}")
    server.sql("SELECT pg_reload_conf()")
    while state not in server.sql("SHOW default_transaction_read_only"):
        pass
