"""What ``wenmai serve`` does: the application in uvicorn, from a bound socket to the last running turn."""

import asyncio
import math
import signal
import socket

import typer
import uvicorn
import uvloop

from wenmai.cli.console import INTERRUPTED
from wenmai.engine import open_engine
from wenmai.errors import InvalidInput
from wenmai.http.app import create_app
from wenmai.http.binding import check_binding
from wenmai.settings import Settings, mask_url


def run_service(settings: Settings) -> int:
    """Serve until SIGTERM or Ctrl-C; the exit status.

    Raises:
        InvalidInput: the address is not allowed or taken.
        WenmaiError: the engine cannot be opened.
    """
    check_binding(settings.host)
    with (
        _bound(settings.host, settings.port) as listening,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(_serve(settings, listening))


async def _serve(settings: Settings, listening: socket.socket) -> int:
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
        _announce(settings, listening)
        await uvicorn.Server(config).serve(sockets=[listening])
    return INTERRUPTED if signal.SIGINT in stopped else 0


def _bound(host: str, port: int) -> socket.socket:
    address = host.strip("[]")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, port), family=family, backlog=2048)
    except OSError as problem:
        free = f"a free port ({problem.strerror}); choose another with --port"
        raise InvalidInput("port", port, free) from problem


def _announce(settings: Settings, listening: socket.socket) -> None:
    host, port = listening.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"Wenmai listens on http://{shown}:{port} (API at /docs); profile {settings.profile}, "
        f"store {mask_url(settings.store)}, model {settings.model}\n"
        "Without authentication it serves this machine only."
    )
