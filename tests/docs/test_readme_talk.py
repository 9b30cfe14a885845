"""The curl commands of the README run as written against a new service without a model."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
START_SECONDS = 30

pytestmark = pytest.mark.xdist_group("readme")


def free_port() -> int:
    """A free port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@pytest.fixture
def service(tmp_path: Path) -> Iterator[int]:
    """A service as started by ``make serve``, on a free port; without an embedder, which has tests of its own."""
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("WENMAI_")}
    environment["WENMAI_EMBEDDER"] = "none"
    command = [
        sys.executable,
        "-m",
        "wenmai",
        "serve",
        "--store",
        f"sqlite:///{tmp_path}/wenmai.db",
        "--port",
        str(port),
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            wait_until_healthy(port, process)
            yield port
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=15) == 0


def wait_until_healthy(port: int, process: "subprocess.Popen[bytes]") -> None:
    """Wait until the service responds."""
    for _ in range(START_SECONDS * 10):
        assert process.poll() is None, "the service has exited"
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    pytest.fail(f"no answer within {START_SECONDS} s")


def readme_commands() -> str:
    """The commands of the README's conversation, all shell blocks joined."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Three turns, no model")[2].partition("\n## ")[0]
    blocks: list[str] = re.findall(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    assert blocks
    return "\n".join(blocks)


def test_the_readmes_conversation_works(service: int) -> None:
    """Turns 2 and 3 are about the first precept, from cited evidence; the other persona does not see that thread."""
    script = readme_commands().replace("127.0.0.1:8001", f"127.0.0.1:{service}")
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    answers = [line for line in done.stdout.splitlines() if line.startswith("{")]
    first, second, third, elder, back, preference = answers[:6]
    assert "孝悌为本" in first
    for answer, evidence_id in ((second, "precepts-01"), (third, "precepts-story-01"), (back, "precepts-01")):
        assert "孝悌" in answer
        assert f'"evidence_id":"{evidence_id}"' in answer.replace(" ", "")
        assert '"policy_mode":"normal"' in answer.replace(" ", "")
    assert "1523" in elder
    assert "孝悌" not in elder
    assert '"verbosity":"detailed"' in preference.replace(" ", "")
