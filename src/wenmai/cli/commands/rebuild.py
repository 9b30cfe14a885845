"""``wenmai rebuild``: make derived memory again from the transcripts."""

import asyncio
from typing import Annotated, NamedTuple

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
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr
from wenmai.cli.terminal.progress import bar
from wenmai.config.settings import Settings
from wenmai.scope import Scope

rebuild_app: typer.Typer = typer.Typer(help="Make derived memory again from the transcripts.", no_args_is_help=True)


@rebuild_app.callback()
def rebuild() -> None:
    """Make derived memory again from the transcripts."""


@rebuild_app.command()
def summaries(
    *,
    session: Annotated[
        str | None, typer.Option(help="Id of a session; default: all sessions of all users", show_default=False)
    ] = None,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
) -> None:
    """Delete rolling summaries and make them again. What an interrupted run leaves out, the service makes."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile, model=model, model_base_url=model_base_url).values
        require_existing_store(settings.store)
        threads = asyncio.run(_rebuild(settings, None if session is None else (scope, session)))
    typer.echo(f"the summaries of {pluralize(threads, 'thread')} are up to date")


@rebuild_app.command()
def episodes(
    *,
    session: Annotated[
        str | None, typer.Option(help="Id of a session; default: all sessions of all users", show_default=False)
    ] = None,
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
        require_existing_store(settings.store)
        done = asyncio.run(_rebuild_episodes(settings, None if session is None else (scope, session)))
    typer.echo(f"the messages of {pluralize(done.threads, 'thread')} are indexed")
    if done.failed:
        print_stderr(f"warning: {pluralize(done.failed, 'run')} failed, the service will repeat what is missing")


class _Done(NamedTuple):
    threads: int
    failed: int


async def _rebuild_episodes(settings: Settings, session: tuple[Scope, str] | None) -> _Done:
    from wenmai.engine import open_engine  # noqa: PLC0415 — slow to import
    from wenmai.memory.library import required  # noqa: PLC0415
    from wenmai.memory.rebuilding import rebuild_episodes  # noqa: PLC0415

    with bar("rebuild") as progress:

        def on_progress(done: int) -> None:
            progress.show(done, pluralize(done, "thread"))

        async with open_engine(settings) as engine:
            documents, logs = required(engine.store, settings.store)
            threads = await rebuild_episodes(
                engine.memory, documents, logs, engine.clock, session=session, on_progress=on_progress
            )
            memory = engine.memory
            names = [*memory.word_functions, *memory.vector_functions]
            return _Done(threads, sum(memory.derived.failures[name] for name in names))


async def _rebuild(settings: Settings, session: tuple[Scope, str] | None) -> int:
    from wenmai.engine import open_engine  # noqa: PLC0415 — slow to import
    from wenmai.memory.library import required  # noqa: PLC0415
    from wenmai.memory.rebuilding import rebuild_summaries  # noqa: PLC0415

    with bar("rebuild") as progress:

        def on_progress(done: int) -> None:
            progress.show(done, pluralize(done, "thread"))

        async with open_engine(settings) as engine:
            _, logs = required(engine.store, settings.store)
            return await rebuild_summaries(engine.memory, logs, session=session, on_progress=on_progress)
