"""What ``wenmai serve`` does: the application in uvicorn, from a bound socket to the last running turn."""

import asyncio
import logging
import os
import signal
import socket
import threading
from types import FrameType

import typer
import uvicorn
import uvloop
from fastapi import FastAPI

from wenmai.cli.connections import ConnectionLimits, bounded_protocol
from wenmai.cli.console import INTERRUPTED, expected_errors
from wenmai.cli.workers import run_workers
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput, mask_url
from wenmai.http.app import create_app
from wenmai.settings import Settings

_log = logging.getLogger(__name__)

TURNS = 0.7
"""The part of ``shutdown_seconds`` that running turns have to end; those that do not are cancelled, and say so."""

CONNECTIONS = 0.8
"""The part that connections have to take their answers; slow readers are cut off then."""

TOO_LATE = 1
"""The exit status if something, such as a store that hangs, keeps the process longer than it may take."""


def run_service(settings: Settings, listening: socket.socket) -> int:
    """Serve on the socket until SIGTERM or Ctrl-C, in as many processes as the settings say; the exit status.

    Raises:
        WenmaiError: the engine cannot be opened.
    """
    if settings.workers == 1:
        return _run(settings, listening, worker=0)
    # A connection that nobody will accept any more is refused only when the last process has closed the socket.
    return run_workers(lambda worker: _reported(settings, listening, worker), settings.workers, on_stop=listening.close)


def _reported(settings: Settings, listening: socket.socket, worker: int) -> int:
    try:
        with expected_errors():
            return _run(settings, listening, worker)
    except typer.Exit as end:
        return end.exit_code


def _run(settings: Settings, listening: socket.socket, worker: int) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_serve(settings, listening, worker))


async def _serve(settings: Settings, listening: socket.socket, worker: int) -> int:
    async with open_engine(settings) as engine:
        app = create_app(engine)
        config = uvicorn.Config(
            app,
            http=bounded_protocol(ConnectionLimits(settings.max_connections, settings.request_seconds)),
            ws="none",
            log_level=settings.log_level,
            access_log=settings.log_level == "debug",
            timeout_graceful_shutdown=settings.shutdown_seconds * CONNECTIONS,  # type: ignore[arg-type] # a float will do
        )
        server = _Server(config, app, settings, announcing=worker == 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            # Uvicorn listens to them while it runs; before that, and when it raises them once more at its end, we do.
            signal.signal(number, server.note)
        await server.serve(sockets=[listening])
    return INTERRUPTED if signal.SIGINT in server.noted else 0


class _Server(uvicorn.Server):
    """Uvicorn that says when it listens, and with a bound on stopping.

    Turns end or are cancelled first, then connections are cut, then all else.

    Attributes:
        noted: the signals that stopped it.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings, *, announcing: bool) -> None:
        super().__init__(config)
        self.noted: list[int] = []
        self._app = app
        self._settings = settings
        self._announcing = announcing

    def note(self, number: int, _frame: FrameType | None) -> None:
        """Stop, and remember why."""
        self.noted.append(number)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen.

        Raises:
            InvalidInput: another process was faster.
        """
        assert sockets is not None  # noqa: S101 — see serve
        for bound in sockets:
            try:
                bound.listen(self.config.backlog)  # uvloop would not tell that it failed
            except OSError as problem:
                wanted = f"a free port ({os.strerror(problem.errno or 0)}); choose another with --port"
                raise InvalidInput("port", self._settings.port, wanted) from problem
        await super().startup(sockets)
        if self._announcing:
            _announce(self._settings, sockets[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no new request; a cancelled turn's request is answered while its connection still stands."""
        seconds = self._settings.shutdown_seconds
        last_resort = threading.Timer(seconds, _give_up, [seconds])
        last_resort.daemon = True
        last_resort.start()
        draining = asyncio.create_task(self._app.state.turns.drain(seconds * TURNS))
        await super().shutdown(sockets)
        await draining


def _give_up(seconds: float) -> None:
    """End as ``kill -9`` would, which loses nothing that was acknowledged."""
    _log.error("stopping took longer than %s s; what still ran is cut off", seconds)
    os._exit(TOO_LATE)


def _announce(settings: Settings, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    cache = f"cache {mask_url(settings.hot)}, " if settings.hot else ""
    workers = f", {settings.workers} workers" if settings.workers > 1 else ""
    typer.echo(
        f"Wenmai listens on http://{shown}:{port} (API at /docs){workers}; profile {settings.profile}, "
        f"store {mask_url(settings.store)}, {cache}model {settings.model or 'offline'}\n"
        "Without authentication it serves this machine only."
    )
