"""What the container image does with the package and its health check, done here without a container."""

import subprocess
import sys
import zipfile
from pathlib import Path

from fastapi import FastAPI
from http_service import listening

from redis_server import free_port
from wenmai.config.settings import Settings
from wenmai.http.app import serve_app

ROOT = Path(__file__).parents[2]
HEALTH_CHECK = ROOT / "deploy/healthcheck.py"


def checked(port: int, **variables: str) -> int:
    """The exit status of the health check of a service on this port."""
    command = [sys.executable, str(HEALTH_CHECK)]
    return subprocess.run(
        command, env={"WENMAI_PORT": str(port), **variables}, stderr=subprocess.DEVNULL, timeout=30, check=False
    ).returncode


def test_health_check_tells_a_service_from_none() -> None:
    """It ends with 0 if the service answers, past any proxy that the environment names, and with 1 if nobody does."""
    with listening(serve_app(Settings(store="memory://", sample_sites=()))) as address:
        port = int(address.rpartition(":")[2])
        assert checked(port, http_proxy=f"http://127.0.0.1:{free_port()}") == 0
    assert checked(port) == 1


def test_health_check_fails_on_any_other_answer() -> None:
    """Something that listens there and is not Wenmai is not healthy."""
    with listening(FastAPI()) as address:
        assert checked(int(address.rpartition(":")[2])) == 1


def test_installed_package_brings_its_profile_and_evidence(tmp_path: Path) -> None:
    """A wheel holds all that a checkout does: the profile is found in it, and a persona answers from evidence."""
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=60)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    asked = subprocess.run(
        [sys.executable, "-m", "wenmai", "chat", "--store", "memory://"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed"), "PYTHONIOENCODING": "utf-8"},
        input="家训第一条是什么？\n",
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    assert "孝悌" in asked.stdout
    found = subprocess.run(
        [sys.executable, "-c", "from wenmai.config.sources import profile_path as path; print(path('npc'))"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "installed")},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Path(found.stdout.strip()) == tmp_path / "installed/wenmai/profiles/npc.yaml"
