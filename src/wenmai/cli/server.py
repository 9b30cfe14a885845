"""Runs the application in uvicorn, for ``wenmai serve``: from a bound socket to a bounded shutdown."""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
from types import FrameType

import typer
import uvicorn
import uvloop
from fastapi import FastAPI

from wenmai.cli.connections import ConnectionLimits, bounded_protocol
from wenmai.cli.supervisor import run_workers
from wenmai.cli.terminal.output import INTERRUPTED, expected_errors
from wenmai.config.settings import Settings
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput, mask_url
from wenmai.http.app import create_app
from wenmai.text.redact.log_filter import install_log_filter

_log = logging.getLogger(__name__)

TURNS_SHARE = 0.7
"""Share of ``shutdown_seconds`` for running turns; then they are cancelled, and their clients get an error."""

CONNECTIONS_SHARE = 0.8
"""Share of ``shutdown_seconds`` for connections to read their responses; then they are closed."""

SWITCH_SECONDS = 0.001
"""Interval at which threads take turns, a fifth of Python's: a thread of the store that has read a row waits for so
long while the event loop computes, and the turn waits for all its rows."""

YOUNG_OBJECTS = 5_000
"""New objects at which the youngest are collected, seven times Python's: the objects of a running turn are not garbage
yet, and looking at them again and again takes a twentieth of the time."""

EXIT_SHUTDOWN_TIMEOUT = 1
"""Exit status if the shutdown timed out, for example because the store hangs."""


def run_service(settings: Settings, listening: socket.socket) -> int:
    """Serve on the socket until SIGTERM or Ctrl-C, in ``settings.workers`` processes; returns the exit status.

    Raises:
        WenmaiError: the engine cannot be opened.
    """
    if settings.workers == 1:
        return _run(settings, listening, worker=0)
    # Connections are refused only once every process, this one included, has closed the socket.
    return run_workers(
        lambda worker: _run_worker(settings, listening, worker), settings.workers, on_stop=listening.close
    )


def _run_worker(settings: Settings, listening: socket.socket, worker: int) -> int:
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
            timeout_graceful_shutdown=settings.shutdown_seconds * CONNECTIONS_SHARE,  # type: ignore[arg-type] # a float works
        )
        install_log_filter()  # to the handlers that the configuration has just made
        server = _Server(config, app, settings, announce=worker == 0)
        for number in (signal.SIGTERM, signal.SIGINT):
            # Uvicorn handles signals while it runs; these handlers cover the time before, and its re-raise at the end.
            signal.signal(number, server.record_signal)
        # What is loaded by now stays: full collections need not visit it, which would stop all turns for 0.1 s.
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
        sys.setswitchinterval(SWITCH_SECONDS)
        await server.serve(sockets=[listening])
    return INTERRUPTED if signal.SIGINT in server.signals else 0


class _Server(uvicorn.Server):
    """Uvicorn server that announces its address and has a bounded shutdown.

    At shutdown, turns are completed or cancelled first, then connections are closed, then the process is ended.

    Attributes:
        signals: the signals received.
    """

    def __init__(self, config: uvicorn.Config, app: FastAPI, settings: Settings, *, announce: bool) -> None:
        super().__init__(config)
        self.signals: list[int] = []
        self._app = app
        self._settings = settings
        self._announce = announce

    def record_signal(self, number: int, _frame: FrameType | None) -> None:
        """Stop the server and record the signal."""
        self.signals.append(number)
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening.

        Raises:
            InvalidInput: another process has taken the port.
        """
        assert sockets is not None  # noqa: S101 — _serve passes one
        for bound in sockets:
            try:
                bound.listen(self.config.backlog)  # uvloop does not report a failure
            except OSError as problem:
                wanted = f"a free port ({os.strerror(problem.errno or 0)}); choose another with --port"
                raise InvalidInput("port", self._settings.port, wanted) from problem
        await super().startup(sockets)
        if self._announce:
            _announce(self._settings, sockets[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no new requests; drain the turns while their connections are still open."""
        seconds = self._settings.shutdown_seconds
        watchdog = threading.Timer(seconds, _force_exit, [seconds])
        watchdog.daemon = True
        watchdog.start()
        draining = asyncio.create_task(self._app.state.turns.drain(seconds * TURNS_SHARE))
        await super().shutdown(sockets)
        await draining


def _force_exit(seconds: float) -> None:
    """Exit at once, like ``kill -9``; acknowledged writes are not lost."""
    _log.error("shutdown took longer than %s s, exiting at once", seconds)
    os._exit(EXIT_SHUTDOWN_TIMEOUT)


def _announce(settings: Settings, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    cache = f"cache {mask_url(settings.hot)}, " if settings.hot else ""
    search = f"search {mask_url(settings.search)}, " if settings.search else ""
    search += f"evidence {mask_url(settings.evidence)}, " if settings.evidence else ""
    pages = " (chat at /, console at /console, API at /docs)" if settings.pages else ""
    workers = f", {settings.workers} workers" if settings.workers > 1 else ""
    typer.echo(
        f"Wenmai listens on http://{shown}:{port}{pages}{workers}; profile {settings.profile}, "
        f"store {mask_url(settings.store)}, {cache}{search}model {settings.model or 'offline'}"
    )
    if settings.auth == "none":
        typer.echo("The service has no authentication, so it serves this machine only.")
