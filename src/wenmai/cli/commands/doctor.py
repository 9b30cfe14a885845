"""``wenmai doctor``: check the setup of a service."""

import asyncio

import typer
from rich.console import Console
from rich.text import Text

from wenmai.cli.options import CacheUrl, ConfigFile, EmbedderName, ModelName, ModelUrl, ProfileName, StoreUrl, load
from wenmai.cli.terminal.output import expected_errors

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    *,
    store: StoreUrl = None,
    hot: CacheUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
) -> None:
    """Check Python, store, encryption, cache, model, embedder, disk and port, say how to fix them. Changes nothing."""
    from wenmai.cli import checks  # noqa: PLC0415 — slow to import

    with expected_errors():
        settings = load(
            config,
            store=store,
            hot=hot,
            profile=profile,
            model=model,
            model_base_url=model_base_url,
            embedder=embedder,
        ).values
        results = asyncio.run(checks.run_checks(settings))
    console = Console(soft_wrap=True, highlight=False)
    for result in results:
        line = Text(f"{result.state:<5}", style=_COLOURS[result.state])
        console.print(line.append(f"{result.name:<11}", style="bold").append(result.text, style="default"))
    if any(result.state == "fail" for result in results):
        raise typer.Exit(1)
