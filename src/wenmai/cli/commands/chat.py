"""``wenmai chat``: chat with a persona in the terminal."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

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
from wenmai.cli.terminal.output import expected_errors


def chat(
    *,
    persona: Annotated[
        str | None, typer.Option(help="The persona's id; default: the first of the profile", show_default=False)
    ] = None,
    session: Annotated[str | None, typer.Option(help="Id of a session to continue", show_default=False)] = None,
    incognito: Annotated[bool, typer.Option("--incognito", help="Neither use nor change preferences")] = False,
    history: Annotated[
        Path | None, typer.Option(help="File for the input history", show_default=False, dir_okay=False)
    ] = None,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
) -> None:
    """Chat with a persona. /help lists the commands; without a terminal, each line of stdin is a question."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(
            config, store=store, profile=profile, model=model, model_base_url=model_base_url, embedder=embedder
        ).values
        from wenmai.cli.terminal.repl import run_repl  # noqa: PLC0415 — slow to import

        asyncio.run(
            run_repl(settings, scope, persona_id=persona, session_id=session, incognito=incognito, history=history)
        )
