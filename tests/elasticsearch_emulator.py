"""An emulator of Elasticsearch from a wheel, on 127.0.0.1 and a free port: for the shapes of calls alone."""

import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

from redis_server import free_port

_READY_SECONDS = 30.0


@contextmanager
def elasticsearch_emulator() -> Iterator[str]:
    """The URL of a store; the emulator ends with the context, and its data with it."""
    spec = find_spec("noida_db")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "noida-db"
    program.chmod(0o755)
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="wenmai-es-") as folder:
        options = ["--data-dir", folder, "--only", "elasticsearch", "--elasticsearch-port", str(port)]
        process = subprocess.Popen(
            [str(program), "start", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + _READY_SECONDS
            while not _answers(port):
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"the emulator did not start (code {process.poll()})")
                time.sleep(0.02)
            yield f"elasticsearch://127.0.0.1:{port}/wenmai?timeout=20"
        finally:
            process.kill()
            process.wait(timeout=10)


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}", timeout=5):
            return True
    except OSError:
        return False
