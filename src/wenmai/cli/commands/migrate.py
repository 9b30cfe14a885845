"""``wenmai migrate``: upgrade the store's schema in place."""

import asyncio
from time import monotonic

import typer

from wenmai.cli.options import ConfigFile, ProfileName, StoreUrl, load
from wenmai.cli.terminal.output import expected_errors
from wenmai.errors import mask_url
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import prepare_store, schema_at
from wenmai.stores.upgrades import Step


def migrate(*, store: StoreUrl = None, profile: ProfileName = None, config: ConfigFile = None) -> None:
    """Upgrade the store to this version's schema, in place. Idempotent: a current store is not changed."""
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        asyncio.run(_migrate(with_key_prefix(settings.store, settings.key_prefix), mask_url(settings.store)))


async def _migrate(url: str, shown: str) -> None:
    began = monotonic()
    schema = await schema_at(url)
    if schema is not None and schema.found < schema.known:
        typer.echo(f"{shown}: {f'schema {schema.found}' if schema.found else 'new'}, to be schema {schema.known}")
    await prepare_store(url, _show)
    if schema is None:
        typer.echo(f"{shown}: has no schema, nothing to do")
    elif schema.found == schema.known:
        typer.echo(f"{shown}: schema {schema.known}, nothing to do")
    else:
        typer.echo(f"{shown}: schema {schema.known} after {monotonic() - began:.2f} s")


def _show(step: Step) -> None:
    typer.echo(str(step))
