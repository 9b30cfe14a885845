"""``wenmai rebuild``: make derived memory again from the transcripts."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from wenmai.cli.memory import require_existing_store
from wenmai.cli.options import (
    DEFAULT_SCOPE,
    ConfigFile,
    EmbedderName,
    ModelName,
    ModelUrl,
    ProfileName,
    Site,
    StoreUrl,
    Tenant,
    User,
    checked_scope,
    load,
)
from wenmai.cli.terminal.output import FAILED, expected_errors, pluralize, print_stderr
from wenmai.cli.terminal.progress import bar
from wenmai.config.settings import Settings
from wenmai.scope import Scope

if TYPE_CHECKING:
    from wenmai.engine import Engine
    from wenmai.memory.rebuilding import Rebuilt

OneSession = Annotated[
    str | None, typer.Option(help="Id of a session; default: all sessions of all users", show_default=False)
]
SessionOf = tuple[Scope, str]
"""A session's owner and id."""

rebuild_app: typer.Typer = typer.Typer(help="Make derived memory again from the transcripts.", no_args_is_help=True)


@rebuild_app.callback()
def rebuild() -> None:
    """Make derived memory again from the transcripts."""


@rebuild_app.command()
def summaries(
    *,
    session: OneSession = None,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
) -> None:
    """Delete rolling summaries and make them again.

    Run it again after an interruption: within a day it goes on where it was, unless the model is another one.
    """
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile, model=model, model_base_url=model_base_url).values
        done = asyncio.run(_rebuild_summaries(settings, None if session is None else (scope, session)))
    _fail_if_given_up(done)
    typer.echo(f"the summaries of {pluralize(done.threads, 'thread')} are up to date")


@rebuild_app.command()
def episodes(
    *,
    session: OneSession = None,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    embedder: EmbedderName = None,
) -> None:
    """Index all messages for recall again: after the index was lost, or at once with another embedder.

    Recall goes on meanwhile. Run it again after an interruption: within a day it goes on where it was.
    """
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile, embedder=embedder).values
        done = asyncio.run(_rebuild_episodes(settings, None if session is None else (scope, session)))
    _fail_if_given_up(done)
    typer.echo(f"the messages of {pluralize(done.threads, 'thread')} are indexed")


def _fail_if_given_up(done: "Rebuilt") -> None:
    """Say how to go on, and exit with status 1, if threads were given up."""
    if done.given_up:
        print_stderr(
            f"wenmai: not finished: of {pluralize(done.threads, 'thread')}, {done.given_up} failed repeatedly and were "
            "given up. Mend what the warnings name and run the same command within a day: it goes on where that began."
        )
        raise typer.Exit(FAILED)


async def _rebuild_episodes(settings: Settings, session: SessionOf | None) -> "Rebuilt":
    from wenmai.memory.library import required  # noqa: PLC0415 — slow to import
    from wenmai.memory.rebuilding import rebuild_episodes  # noqa: PLC0415

    async with _engine_with_bar(settings) as (engine, on_progress):
        memory, (documents, logs) = engine.memory, required(engine.store, settings.store)
        return await rebuild_episodes(memory, documents, logs, session=session, on_progress=on_progress)


async def _rebuild_summaries(settings: Settings, session: SessionOf | None) -> "Rebuilt":
    from wenmai.memory.library import required  # noqa: PLC0415 — slow to import
    from wenmai.memory.rebuilding import rebuild_summaries  # noqa: PLC0415

    async with _engine_with_bar(settings) as (engine, on_progress):
        memory, (documents, logs) = engine.memory, required(engine.store, settings.store)
        return await rebuild_summaries(memory, documents, logs, session=session, on_progress=on_progress)


@asynccontextmanager
async def _engine_with_bar(settings: Settings) -> "AsyncIterator[tuple[Engine, Callable[[int], None]]]":
    """An engine on the settings' store, and the function that shows the number of threads that are done."""
    from wenmai.engine import open_engine  # noqa: PLC0415 — slow to import

    require_existing_store(settings.store)
    with bar("rebuild") as progress:
        async with open_engine(settings) as engine:
            yield engine, lambda done: progress.show(done, pluralize(done, "thread"))
