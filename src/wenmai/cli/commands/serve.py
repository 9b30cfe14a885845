"""``wenmai serve``: the HTTP service."""

import asyncio
import logging
import os
import socket
from typing import Annotated

import typer

from wenmai.cli.options import (
    CacheUrl,
    ConfigFile,
    EmbedderName,
    EvidenceUrl,
    ModelName,
    ModelUrl,
    ProfileName,
    StoreUrl,
    load,
)
from wenmai.cli.terminal.output import expected_errors
from wenmai.errors import InvalidInput
from wenmai.http.loopback import check_bind_host
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import prepare_store
from wenmai.stores.upgrades import log_step


def serve(
    *,
    host: Annotated[str | None, typer.Option(help="Address to listen on; loopback only", show_default=False)] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; default: 8001; 0 for any free port", show_default=False)
    ] = None,
    store: StoreUrl = None,
    hot: CacheUrl = None,
    evidence: EvidenceUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of worker processes; default: 1", show_default=False)
    ] = None,
    pages: Annotated[
        bool | None, typer.Option("--pages/--no-pages", help="Serve the pages, or the API alone", show_default=False)
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error", show_default=False)] = None,
) -> None:
    """Serve the HTTP API until stopped; running turns are completed first."""
    with expected_errors():
        settings = load(
            config,
            host=host,
            port=port,
            store=store,
            hot=hot,
            evidence=evidence,
            profile=profile,
            model=model,
            model_base_url=model_base_url,
            embedder=embedder,
            workers=workers,
            pages=pages,
            log_level=log_level,
        ).values
        check_bind_host(settings.host, settings.auth)
        if settings.workers > 1 and settings.store.startswith("memory:"):
            raise InvalidInput("workers", settings.workers, "1: an in-process store is not shared between workers")
        if settings.workers > 1 and any(url.startswith("milvus:///") for url in (settings.search, settings.evidence)):
            raise InvalidInput("workers", settings.workers, "1: a Milvus file belongs to one process")
        logging.getLogger("wenmai").setLevel(settings.log_level.upper())
        with _bound_socket(settings.host, settings.port) as listening:
            # Before forking workers and before slow imports, so that errors are reported once and early.
            asyncio.run(prepare_store(with_key_prefix(settings.store, settings.key_prefix), log_step))
            from wenmai.cli.server import run_service  # noqa: PLC0415 — slow to import

            status = run_service(settings, listening)
    raise typer.Exit(status)


def _bound_socket(host: str, port: int) -> socket.socket:
    """A bound socket that does not listen yet: connections are refused until the service is ready."""
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
