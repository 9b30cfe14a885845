"""``wenmai audit``: show the administrative acts of a tenant, or verify their chain."""

import asyncio
from typing import Annotated

import typer

from wenmai.cli.memory import memory_from_settings, require_existing_store
from wenmai.cli.options import DEFAULT_SCOPE, ConfigFile, ProfileName, StoreUrl, Tenant, checked_scope, load
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr
from wenmai.config.settings import Settings
from wenmai.memory.audit import AuditStatus
from wenmai.stores.records import AuditEntry
from wenmai.text.printable import printable


def audit(
    *,
    verify: Annotated[bool, typer.Option("--verify", help="Verify that no entry was changed or removed")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of entries")] = 50,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Show the administrative acts of a tenant, newest first: keys, erasures, activations, corrections of states."""
    checked_scope(tenant, DEFAULT_SCOPE.site_id, DEFAULT_SCOPE.user_id)
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        require_existing_store(settings.store)
        status, entries = asyncio.run(_read(settings, tenant, 0 if verify else limit))
    for entry in entries:
        details = "  ".join(f"{name}={value}" for name, value in entry.details.items())
        typer.echo(printable(f"{entry.number}  {entry.at:%Y-%m-%d %H:%M:%S}  {entry.act}  {entry.actor}  {details}"))
    if status.broken_at is not None:
        print_stderr(f"the chain is broken at entry {status.broken_at} of {status.entries}")
        raise typer.Exit(1)
    if verify:
        newest = f", the newest digest is {status.newest}" if status.newest else ""
        typer.echo(f"valid: {pluralize(status.entries, 'act')}{newest}")


async def _read(settings: Settings, tenant_id: str, limit: int) -> tuple[AuditStatus, list[AuditEntry]]:
    async with memory_from_settings(settings) as memory:
        entries = await memory.audit.entries(tenant_id, limit=limit) if limit else []
        return await memory.audit.verify(tenant_id), entries
