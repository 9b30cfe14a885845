"""Servers that the integration tests talk to; each is started when it is first asked for."""

from collections.abc import Iterator

import pytest
from model_server import ModelServer


@pytest.fixture(scope="session")
def model_process() -> Iterator[ModelServer]:
    """The model server's process, started by :func:`model_server`, stopped at the end of the session."""
    server = ModelServer()
    yield server
    server.stop()


@pytest.fixture
def model_server(model_process: ModelServer) -> ModelServer:
    """A running model server; started again if an earlier test has killed it."""
    model_process.start()
    return model_process
