"""``wenmai serve``: the HTTP service."""

import asyncio
import logging
import os
import socket
from typing import Annotated

import typer

from wenmai.cli.console import expected_errors
from wenmai.cli.options import ConfigFile, EmbedderName, HotUrl, ModelName, ModelUrl, ProfileName, StoreUrl, load
from wenmai.errors import InvalidInput
from wenmai.http.binding import check_binding
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.registry import prepare_store
from wenmai.stores.upgrades import log_step


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Where to listen; loopback only", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(help="8001 if not set; 0 for any that is free", show_default=False)
    ] = None,
    store: StoreUrl = None,
    hot: HotUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
    workers: Annotated[int | None, typer.Option(help="Processes that serve; 1 if not set", show_default=False)] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error", show_default=False)] = None,
) -> None:
    """Serve the HTTP API until it is stopped; running turns are finished first."""
    with expected_errors():
        settings = load(
            config,
            host=host,
            port=port,
            store=store,
            hot=hot,
            profile=profile,
            model=model,
            model_base_url=model_base_url,
            embedder=embedder,
            workers=workers,
            log_level=log_level,
        ).values
        check_binding(settings.host)
        if settings.workers > 1 and settings.store.startswith("memory:"):
            raise InvalidInput("workers", settings.workers, "1: a store in memory is each process's own")
        logging.getLogger("wenmai").setLevel(settings.log_level.upper())
        with _bound(settings.host, settings.port) as listening:
            # Before there are several processes, and before much is loaded: what is wrong is told once, and soon.
            asyncio.run(prepare_store(with_key_prefix(settings.store, settings.key_prefix), log_step))
            from wenmai.cli.service import run_service  # noqa: PLC0415 — it loads the web framework

            status = run_service(settings, listening)
    raise typer.Exit(status)


def _bound(host: str, port: int) -> socket.socket:
    """A socket with the address, on which nobody listens yet: connections are refused until they can be served."""
    address = host.strip("[]")
    bound = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((address, port))
    except OSError as problem:
        bound.close()
        free = f"a free port ({os.strerror(problem.errno or 0)}); choose another with --port"
        raise InvalidInput("port", port, free) from problem
    return bound
