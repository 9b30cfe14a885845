"""What ``wenmai serve`` does: the application in uvicorn, from a bound socket to the last running turn."""

import asyncio
import math
import signal
import socket

import typer
import uvicorn
import uvloop

from wenmai.cli.console import INTERRUPTED, expected_errors
from wenmai.cli.workers import run_workers
from wenmai.engine import open_engine
from wenmai.errors import mask_url
from wenmai.http.app import create_app
from wenmai.settings import Settings


def run_service(settings: Settings, listening: socket.socket) -> int:
    """Serve on the socket until SIGTERM or Ctrl-C, in as many processes as the settings say; the exit status.

    Raises:
        WenmaiError: the engine cannot be opened.
    """
    if settings.workers == 1:
        return _run(settings, listening, worker=0)
    return run_workers(lambda worker: _reported(settings, listening, worker), settings.workers)


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
        config = uvicorn.Config(
            create_app(engine),
            log_level=settings.log_level,
            access_log=settings.log_level == "debug",
            timeout_graceful_shutdown=math.ceil(settings.shutdown_seconds),
        )
        stopped: list[int] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            # uvicorn raises the signal that stopped it once more at its end; the engine is still to be closed.
            signal.signal(number, lambda number, _: stopped.append(number))
        if worker == 0:
            _announce(settings, listening)
        await uvicorn.Server(config).serve(sockets=[listening])
    return INTERRUPTED if signal.SIGINT in stopped else 0


def _announce(settings: Settings, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"Wenmai listens on http://{shown}:{port} (API at /docs); profile {settings.profile}, "
        f"store {mask_url(settings.store)}, model {settings.model}\n"
        "Without authentication it serves this machine only."
    )
