"""``wenmai doctor``: is everything there that a service needs?"""

import asyncio

import typer
from rich.console import Console
from rich.text import Text

from wenmai.cli.console import expected_errors
from wenmai.cli.options import ConfigFile, EmbedderName, HotUrl, ModelName, ModelUrl, ProfileName, StoreUrl, load

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(
    *,
    store: StoreUrl = None,
    hot: HotUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
) -> None:
    """Check Python, store, cache, model, embedder, disk and port; each line says what to do. Changes nothing."""
    from wenmai.cli import checks  # noqa: PLC0415 — it loads what it checks

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
        findings = asyncio.run(checks.examine(settings))
    console = Console(soft_wrap=True, highlight=False)
    for finding in findings:
        line = Text(f"{finding.state:<5}", style=_COLOURS[finding.state])
        console.print(line.append(f"{finding.what:<9}", style="bold").append(finding.text, style="default"))
    if any(finding.state == "fail" for finding in findings):
        raise typer.Exit(1)
