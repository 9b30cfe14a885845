"""``wenmai serve``: start, errors, workers, stop."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from cli_process import COMMAND, SECONDS, children_of, environment, wenmai


@pytest.fixture
def service(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A service on a port of its own."""
    process = subprocess.Popen(
        [*COMMAND, "serve", "--port", "0"],
        cwd=tmp_path,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
    )
    yield process
    process.kill()
    process.communicate()


def read_announcement(service: subprocess.Popen[str], expected: tuple[str, ...] = ()) -> tuple[str, str]:
    """The URL of its first line, which contains the expected texts, and the second line."""
    assert service.stdout is not None
    line = service.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:\d+", line)
    assert found is not None
    assert [each for each in expected if each not in line] == []
    return found[0], service.stdout.readline()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_service_answers_and_stops_on_a_signal(
    service: subprocess.Popen[str], number: signal.Signals, status: int
) -> None:
    """It prints its address and that it serves this machine only, answers a turn, and exits cleanly."""
    address, audience = read_announcement(service)
    question = {"tenant_id": "default", "site_id": "default", "npc_id": "ancestor_yan", "query": "家训第一条是什么？"}
    answer = httpx.post(f"{address}/api/v1/npc/chat", json=question, timeout=SECONDS)
    assert "孝悌" in answer.json()["answer_text"]
    service.send_signal(number)
    assert service.wait(SECONDS) == status
    assert "this machine only" in audience


def test_service_refuses_other_machines(tmp_path: Path) -> None:
    """Without authentication it binds to loopback addresses only; the check precedes any file creation."""
    done = wenmai("serve", "--host", "0.0.0.0", folder=tmp_path)  # noqa: S104 — refused
    assert done.returncode == 2
    assert done.stderr.startswith("wenmai: host: '0.0.0.0' is not a loopback address")
    assert list(tmp_path.iterdir()) == []


def test_taken_port_is_one_line(tmp_path: Path) -> None:
    """A port in use is reported before the store is opened."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = wenmai("serve", "--port", str(taken.getsockname()[1]), folder=tmp_path)
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_store_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    """A file that is no store is rejected without a traceback."""
    (tmp_path / "notes.db").write_text("these are notes and no database at all\n" * 100)
    done = wenmai("serve", "--port", "0", "--store", "sqlite:///notes.db", folder=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert done.stderr.startswith("wenmai: store: sqlite is unavailable: notes.db: file is not a database")


def test_workers_share_a_port_and_a_dead_one_is_replaced(tmp_path: Path) -> None:
    """Two processes serve one store; killing one loses nothing acknowledged, and SIGTERM stops all, with status 0."""
    command = [*COMMAND, "serve", "--port", "0", "--workers", "2", "--store", f"sqlite:///{tmp_path}/wenmai.db"]
    command += ["--hot", "redis://:secret@127.0.0.1:9/0"]
    with subprocess.Popen(
        command, env=environment(PYTHONUNBUFFERED="1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        try:
            url, _ = read_announcement(parent, expected=("2 workers", "redis://:***@127.0.0.1:9/0"))
            created = httpx.post(f"{url}/v1/sessions", json={"session_id": "kept"}, timeout=20)
            assert created.status_code == 201
            first, second = children_of(parent.pid)
            os.kill(first, signal.SIGKILL)
            wait_until(lambda: len(children_of(parent.pid)) == 2 and first not in children_of(parent.pid))
            assert second in children_of(parent.pid)
            for _ in range(10):
                with httpx.Client(timeout=20) as client:
                    assert client.get(f"{url}/v1/sessions/kept").status_code == 200
        finally:
            parent.send_signal(signal.SIGTERM)
            status = parent.wait(timeout=20)
    assert status == 0


def test_workers_need_a_shared_store(tmp_path: Path) -> None:
    """An in-process store is not shared between processes."""
    done = wenmai("serve", "--port", "0", "--workers", "2", "--store", "memory://", folder=tmp_path)
    assert done.returncode == 2
    assert "workers" in done.stderr


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until the condition is true; fail after 20 s."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
