"""``wenmai encryption``: the master keys, and the data keys that they wrap."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from wenmai.cli.memory import require_existing_store
from wenmai.cli.options import ConfigFile, ProfileName, StoreUrl, load
from wenmai.cli.terminal.output import expected_errors, pluralize
from wenmai.cli.terminal.progress import bar
from wenmai.clock import system_clock
from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.stores.encryption.settings import Encryption, new_master_key
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import encrypted_part, open_stores

if TYPE_CHECKING:
    from wenmai.stores.encryption.store import EncryptedStore

encryption_app: typer.Typer = typer.Typer(help="Master keys of the store_policy encrypt.", no_args_is_help=True)


@encryption_app.callback()
def encryption() -> None:
    """Make and replace the master keys of the store_policy encrypt."""


@encryption_app.command("new-key")
def new_key(
    key_id: Annotated[
        str | None, typer.Argument(help="Its id: letters, digits, - and _; default: today", show_default=False)
    ] = None,
) -> None:
    """Print a random master key, as the setting master_keys has it. Nothing is stored."""
    with expected_errors():
        typer.echo(new_master_key(key_id or f"{system_clock():%Y-%m-%d}"))


@encryption_app.command()
def rewrap(*, store: StoreUrl = None, profile: ProfileName = None, config: ConfigFile = None) -> None:
    """Wrap all data keys with the first of master_keys; the others are not needed afterwards.

    What users said is not rewritten. Restart all services with the new key before. An interrupted run is repeated.
    """
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        require_existing_store(settings.store)
        done, first = asyncio.run(_rewrap(settings))
    typer.echo(f"{pluralize(done, 'data key')} wrapped again; the only master key in use is {first}")


async def _rewrap(settings: Settings) -> tuple[int, str]:
    with bar("rewrap") as progress:
        async with _opened(settings) as store:
            done = await store.keys.rewrap(lambda count: progress.show(count, pluralize(count, "key")))
            first = await store.keyring.drop_former()
            return done + await store.keys.rewrap(), first


@asynccontextmanager
async def _opened(settings: Settings) -> "AsyncIterator[EncryptedStore]":
    given = Encryption.of_settings(**settings.encryption)
    if given is None:
        raise InvalidInput("master_keys", "", "given")
    url = with_key_prefix(settings.store, settings.key_prefix)
    async with open_stores(url, policy="encrypt", encryption=given, clock=system_clock) as (store, _):
        found = encrypted_part(store)
        assert found is not None  # noqa: S101 — opened with encryption
        yield found
