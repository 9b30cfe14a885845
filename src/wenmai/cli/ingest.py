"""``wenmai ingest``: files become evidence."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.console import complain, counted, expected_errors, name_skipped
from wenmai.cli.options import (
    NOBODY,
    ConfigFile,
    EmbedderName,
    ProfileName,
    Site,
    StoreUrl,
    Tenant,
    checked_scope,
    load,
)


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders", exists=True, readable=True)],
    *,
    domain: Annotated[
        list[str] | None, typer.Option(help="Domain of passages that name none", show_default=False)
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove passages that these sources no longer have")
    ] = False,
    tenant: Tenant = NOBODY.tenant_id,
    site: Site = NOBODY.site_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    embedder: EmbedderName = None,
) -> None:
    """Ingest evidence: Markdown, text, JSON lines, CSV. May be repeated: what is there already stays."""
    from wenmai.cli import ingestion  # noqa: PLC0415 — it loads what evidence needs

    scope = checked_scope(tenant, site, NOBODY.user_id)
    with expected_errors():
        settings = load(config, store=store, profile=profile, embedder=embedder).values
        files = ingestion.files_in(paths)
        outcome = asyncio.run(ingestion.ingest_files(settings, scope, files, domain or [], replace=replace))
    name_skipped(outcome.skipped, len(outcome.skipped))
    done = outcome.report
    typer.echo(
        f"{counted(len(files), 'file')}: {counted(done.added, 'passage')} added, {done.changed} changed, "
        f"{done.unchanged} unchanged, {done.removed} removed"
    )
    for warning in outcome.warnings:
        complain(f"warning: {warning} (--domain NAME, or `domains` in the file)")
    if outcome.skipped:
        raise typer.Exit(1)
