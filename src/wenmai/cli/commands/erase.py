"""``wenmai erase``: erase a user, or verify the receipt of an erasure."""

import asyncio
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from wenmai.cli.memory import memory_from_settings, require_existing_store
from wenmai.cli.options import DEFAULT_SCOPE, ConfigFile, ProfileName, Site, StoreUrl, Tenant, checked_scope, load
from wenmai.cli.terminal.output import expected_errors, print_stderr
from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.memory.erasure_receipts import ErasureReceipt, Receipts
from wenmai.scope import Scope


def erase(
    *,
    user: Annotated[str, typer.Option(help="The user to erase", show_default=False, rich_help_panel="Scope")] = "",
    site: Site = DEFAULT_SCOPE.site_id,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    verify: Annotated[
        Path | None,
        typer.Option(help="Verify the receipt in this file instead", exists=True, dir_okay=False, show_default=False),
    ] = None,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Erase everything that is stored of a user, and print the receipt, signed with the setting receipt_key."""
    if bool(user) == bool(verify):
        raise typer.BadParameter("give either --user or --verify", param_hint="--user")
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        if verify is not None:
            _verify(verify, settings)
            return
        require_existing_store(settings.store)
        receipt = asyncio.run(_erase(settings, checked_scope(tenant, site, user)))
    typer.echo(msgspec.json.format(msgspec.json.encode(receipt)).decode())
    if not receipt.signature:
        print_stderr("the receipt is not signed: set receipt_key")


def _verify(path: Path, settings: Settings) -> None:
    """Say whose erasure the receipt proves; exits with 1 if it was not signed with our key."""
    try:
        receipt = msgspec.json.decode(path.read_bytes(), type=ErasureReceipt)
    except msgspec.DecodeError as problem:
        raise InvalidInput("verify", str(path), f"the receipt of an erasure: {problem}") from problem
    whose = f"{receipt.user_id} of {receipt.tenant_id}/{receipt.site_id}"
    if not Receipts(key=settings.receipt_key).is_valid(receipt):
        print_stderr(f"{path}: not a receipt that this receipt_key has signed")
        raise typer.Exit(1)
    typer.echo(f"valid: {whose} was erased at {receipt.finished_at:%Y-%m-%d %H:%M:%S} UTC, {receipt.left} left")


async def _erase(settings: Settings, scope: Scope) -> ErasureReceipt:
    async with memory_from_settings(settings) as memory:
        return await memory.erasures.erase(scope, actor="cli")
