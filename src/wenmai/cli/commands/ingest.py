"""``wenmai ingest``: ingest files as evidence."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.options import (
    DEFAULT_SCOPE,
    ConfigFile,
    EmbedderName,
    EvidenceUrl,
    ProfileName,
    Site,
    StoreUrl,
    Tenant,
    checked_scope,
    load,
)
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr, report_skipped


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files or folders", exists=True, readable=True)],
    *,
    domain: Annotated[
        list[str] | None, typer.Option(help="Domain of passages without one; repeatable", show_default=False)
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Remove stored passages that these sources no longer contain")
    ] = False,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    store: StoreUrl = None,
    evidence: EvidenceUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    embedder: EmbedderName = None,
) -> None:
    """Ingest evidence: Markdown, text, JSON lines, CSV. Idempotent: unchanged passages are not stored again."""
    from wenmai.cli import ingest_files  # noqa: PLC0415 — slow to import

    scope = checked_scope(tenant, site, DEFAULT_SCOPE.user_id)
    with expected_errors():
        settings = load(config, store=store, evidence=evidence, profile=profile, embedder=embedder).values
        files = ingest_files.find_files(paths)
        outcome = asyncio.run(ingest_files.ingest_files(settings, scope, files, domain or [], replace=replace))
    report_skipped(outcome.skipped, len(outcome.skipped))
    report = outcome.report
    typer.echo(
        f"{pluralize(len(files), 'file')}: {pluralize(report.added, 'passage')} added, {report.changed} changed, "
        f"{report.unchanged} unchanged, {report.removed} removed"
    )
    for warning in outcome.warnings:
        print_stderr(f"warning: {warning} (--domain NAME, or `domains` in the file)")
    if outcome.not_embedded:
        print_stderr(f"warning: not all passages are embedded, the service will do it: {outcome.not_embedded}")
    if outcome.skipped or outcome.not_embedded:
        raise typer.Exit(1)
