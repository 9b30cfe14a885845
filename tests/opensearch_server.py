"""A real OpenSearch node for tests, on 127.0.0.1 and a free port; Maven fetches its jars once, from Maven Central.

The jars (60 MB) and the compiled program are kept in ``~/.cache/wenmai-tests``. They need Java 17 and Maven.
"""

import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from hashlib import sha256
from pathlib import Path

from redis_server import free_port
from scratch import scratch_folder

_SOURCES = Path(__file__).parent / "servers" / "opensearch"
_CACHE = Path.home() / ".cache" / "wenmai-tests"

_FETCH_SECONDS, _READY_SECONDS, _END_SECONDS = 600.0, 100.0, 10.0

_JVM = ("-Xms320m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class JavaMissingError(RuntimeError):
    """There is no Java, or no Maven."""


class OpenSearchServer:
    """A node, which can be killed and started again with the same data and port, until :meth:`remove`.

    Args:
        class_archive: option of Java that writes an archive of classes; without it, that of all nodes is read.
    """

    def __init__(self, class_archive: str = "") -> None:
        self._program = _program()
        self._class_archive = class_archive or f"-XX:SharedArchiveFile={_class_archive(self._program)}"
        self._folder = Path(tempfile.mkdtemp(prefix="wenmai-os-", dir=scratch_folder()))
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running node."""
        assert self._process is not None
        return self._process

    @property
    def folder(self) -> Path:
        """With its data and log."""
        return self._folder

    @property
    def port(self) -> int:
        """The same at each start."""
        return self._port

    def url(self, prefix: str, scheme: str = "opensearch") -> str:
        """The URL of a store."""
        return f"{scheme}://127.0.0.1:{self._port}/{prefix}"

    def start(self) -> None:
        """Start the node and wait until it answers; does nothing if it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        jars = [str(self._program / part) for part in ("node.jar", "jars/*", "vectors/*")]
        with (self._folder / "node.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    "java",
                    *_JVM,
                    self._class_archive,
                    "-cp",
                    ":".join(jars),
                    "TestNode",
                    str(self._folder),
                    str(self._port),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        deadline = time.monotonic() + _READY_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_end = (self._folder / "node.log").read_text(errors="replace")[-2_000:]
                raise RuntimeError(f"the OpenSearch node did not start (code {self._process.poll()})\n{log_end}")
            time.sleep(0.05)

    def kill(self) -> None:
        """End the node with SIGKILL; does nothing if it does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(timeout=_END_SECONDS)
            if self._process.stdin is not None:
                self._process.stdin.close()

    def end(self) -> None:
        """End the node in order."""
        self.process.terminate()
        self.process.wait(timeout=_READY_SECONDS)

    def remove(self) -> None:
        """End the node and delete its data."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _answers(self) -> bool:
        """Whether the node answers, and has opened all its indices."""
        asked = f"http://127.0.0.1:{self._port}/_cluster/health?wait_for_status=green&timeout=1s"
        try:
            with urllib.request.urlopen(asked, timeout=5):
                return True
        except OSError:
            return False


def _program() -> Path:
    """The folder of jars and program, fetched and compiled unless they are there.

    Raises:
        JavaMissingError: that needs Java and Maven.
    """
    sources = sorted(_SOURCES.iterdir())
    digest = sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    folder = _CACHE / f"opensearch-{digest}"
    missing = [tool for tool in ("java", "javac", "mvn") if shutil.which(tool) is None]
    if missing:
        raise JavaMissingError(f"{', '.join(missing)} not found: install Java 17 and Maven to test OpenSearch")
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="fetching-", dir=_CACHE) as made:
            _run("mvn", "-q", "-B", "-f", str(_SOURCES / "pom.xml"), f"-Dfolder={made}/program", "process-resources")
            jars = ":".join(f"{made}/program/{part}/*" for part in ("jars", "vectors"))
            _run("javac", "-cp", jars, "-d", f"{made}/program/classes", str(_SOURCES / "TestNode.java"))
            if not folder.exists():  # another process may have been faster
                Path(made, "program").rename(folder)
    return folder


def _class_archive(program: Path) -> Path:
    """The loaded classes of a node that has worked, with which the next ones take half the time to start."""
    archive = program / "classes.jsa"
    if not archive.exists():
        with tempfile.TemporaryDirectory(prefix="archiving-", dir=_CACHE) as made:
            jar, written = Path(made, "node.jar"), Path(made, archive.name)
            _run("jar", "--create", "--file", str(jar), "-C", str(program / "classes"), ".")  # it archives no folders
            jar.rename(program / jar.name)
            node = OpenSearchServer(f"-XX:ArchiveClassesAtExit={written}")
            try:
                node.start()
                node.end()
            finally:
                node.remove()
            written.rename(archive)
    return archive


def main() -> None:
    """Fetch the jars, which the time limit of a test would cut off; say so if nothing of OpenSearch will be tested."""
    try:
        sys.stdout.write(f"OpenSearch for tests: {_class_archive(_program())}\n")
    except JavaMissingError as missing:
        sys.stdout.write(f"NOTHING OF OPENSEARCH WILL BE TESTED: {missing}\n")


def _run(*command: str) -> None:
    done = subprocess.run(command, timeout=_FETCH_SECONDS, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-2_000:]}")


if __name__ == "__main__":
    main()
