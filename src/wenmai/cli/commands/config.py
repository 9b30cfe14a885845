"""``wenmai config``: the effective settings and their sources."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from wenmai.cli.options import ConfigFile, EmbedderName, ModelName, ModelUrl, ProfileName, StoreUrl, load
from wenmai.cli.terminal.output import expected_errors
from wenmai.config.settings import LoadedSettings, display_rows


def config(
    *,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON")] = False,
) -> None:
    """Show the effective settings and their sources; secrets are masked."""
    with expected_errors():
        loaded = load(
            config, store=store, profile=profile, model=model, model_base_url=model_base_url, embedder=embedder
        )
    if as_json:
        typer.echo(json.dumps(_as_json(loaded), ensure_ascii=False, indent=2))
        return
    table = Table("setting", "value", "from", box=None, pad_edge=False)
    for key, text, origin in display_rows(loaded):
        table.add_row(key, text, origin)
    Console(soft_wrap=True).print(table, highlight=False, markup=False)


def _as_json(loaded: LoadedSettings) -> dict[str, dict[str, object]]:
    """The values with their types; masked values as text."""
    values: dict[str, dict[str, object]] = {}
    for key, text, origin in display_rows(loaded):
        value = getattr(loaded.values, key)
        values[key] = {"value": value if str(value) == text else text, "origin": origin}
    return values
