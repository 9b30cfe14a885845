"""``wenmai keys``: create, list and revoke API keys."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Annotated

import typer

from wenmai.auth.keys import ApiKeys
from wenmai.auth.principal import Right
from wenmai.cli.memory import require_existing_store
from wenmai.cli.options import (
    DEFAULT_SCOPE,
    ConfigFile,
    ProfileName,
    StoreUrl,
    Tenant,
    checked_scope,
    load,
)
from wenmai.cli.terminal.output import expected_errors, print_stderr
from wenmai.clock import system_clock
from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.memory.audit import AuditLog
from wenmai.stores.key_prefix import with_key_prefix
from wenmai.stores.opening import open_store
from wenmai.stores.records import ApiKeyRecord
from wenmai.stores.structs import Stored
from wenmai.text.printable import printable

keys_app: typer.Typer = typer.Typer(help="Create, list and revoke API keys of the HTTP service.", no_args_is_help=True)


@keys_app.callback()
def keys() -> None:
    """Create, list and revoke API keys of the HTTP service (setting auth = keys)."""


@keys_app.command()
def create(
    *,
    right: Annotated[
        list[str] | None, typer.Option(help="chat, read, write, admin or erase; repeatable; default: chat, read, write")
    ] = None,
    name: Annotated[str, typer.Option(help="Whose it is, or what for")] = "",
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Annotated[
        list[str] | None, typer.Option(help="Only this site; repeatable; default: all of the tenant")
    ] = None,
    user: Annotated[str, typer.Option(help="Only this user; default: all of the tenant")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Expires after so many days; default: never")
    ] = None,
    rate: Annotated[str, typer.Option(help="Its rate limit, such as 60/minute; default: the setting rate_limit")] = "",
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Create a key and print it. It is not stored: keep it, it cannot be shown again."""
    for each in site or [DEFAULT_SCOPE.site_id]:
        checked_scope(tenant, each, user or DEFAULT_SCOPE.user_id)
    rights: list[Right] = right or ["chat", "read", "write"]  # type: ignore[assignment] # checked by create
    with expected_errors():
        settings = load(config, store=store, profile=profile).values

        async def created() -> tuple[str, ApiKeyRecord]:
            async with _opened(settings) as (api_keys, audit):
                made = await api_keys.create(
                    tenant_id=tenant,
                    rights=rights,
                    sites=site or [],
                    user_id=user,
                    name=name,
                    rate_limit=rate,
                    expires_at=None if days is None else system_clock() + timedelta(days=days),
                )
                await audit.record(tenant, "key_created", actor="cli", key=made[1].key_id, rights=" ".join(rights))
                return made

        text, record = asyncio.run(created())
    print_stderr(f"{record.key_id}: {_of(record)}")
    typer.echo(text)


@keys_app.command("list")
def list_(*, store: StoreUrl = None, profile: ProfileName = None, config: ConfigFile = None) -> None:
    """List all keys, newest first: id, creation, state, for whom, rights, name."""
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        require_existing_store(settings.store)

        async def listed() -> list[Stored[ApiKeyRecord]]:
            async with _opened(settings) as (api_keys, _):
                return await api_keys.all()

        for stored in asyncio.run(listed()):
            created_at = f"{stored.created_at:%Y-%m-%d}"
            typer.echo(
                printable(f"{stored.record.key_id}  {created_at}  {_state(stored.record)}  {_of(stored.record)}")
            )


@keys_app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, as shown by list")],
    *,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Revoke a key. Running services refuse it within 5 seconds."""
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        require_existing_store(settings.store)

        async def revoked() -> ApiKeyRecord:
            async with _opened(settings) as (api_keys, audit):
                record = await api_keys.revoke(key_id)
                await audit.record(record.for_tenant, "key_revoked", actor="cli", key=key_id)
                return record

        record = asyncio.run(revoked())
    typer.echo(f"{record.key_id}: {_state(record)}")


def _state(record: ApiKeyRecord) -> str:
    if record.revoked_at is not None:
        return f"revoked {record.revoked_at:%Y-%m-%d}"
    if record.expires_at is None:
        return "valid"
    state = "valid until" if record.expires_at > system_clock() else "expired"
    return f"{state} {record.expires_at:%Y-%m-%d}"


def _of(record: ApiKeyRecord) -> str:
    """For whom a key speaks, its rights, its own rate limit, and its name."""
    sites = ", ".join(record.for_sites) or "all sites"
    who, rights = record.for_user or "all users", ", ".join(record.rights)
    parts = [f"{record.for_tenant} ({sites})", who, rights, record.rate_limit, record.name]
    return "  ".join(filter(None, parts))


@asynccontextmanager
async def _opened(settings: Settings) -> AsyncIterator[tuple[ApiKeys, AuditLog]]:
    async with open_store(with_key_prefix(settings.store, settings.key_prefix)) as store:
        if store.documents is None:
            raise InvalidInput("store", store.name, "a store with documents, such as sqlite or postgresql")
        api_keys = ApiKeys(store.documents, system_clock, pepper=settings.key_pepper)
        yield api_keys, AuditLog(store.documents, system_clock)
