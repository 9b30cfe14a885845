"""``wenmai chat``: talk with a persona in the terminal."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.console import expected_errors
from wenmai.cli.options import (
    NOBODY,
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


def chat(
    *,
    persona: Annotated[
        str | None, typer.Option(help="Who answers; the profile's first if not given", show_default=False)
    ] = None,
    session: Annotated[str | None, typer.Option(help="A session to continue", show_default=False)] = None,
    incognito: Annotated[bool, typer.Option("--incognito", help="Use and change no preferences")] = False,
    history: Annotated[
        Path | None, typer.Option(help="File of typed lines", show_default=False, dir_okay=False)
    ] = None,
    tenant: Tenant = NOBODY.tenant_id,
    site: Site = NOBODY.site_id,
    user: User = NOBODY.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    model: ModelName = None,
    model_base_url: ModelUrl = None,
    embedder: EmbedderName = None,
) -> None:
    """Talk with a persona. /help lists what else can be typed; without a terminal, lines are questions."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(
            config, store=store, profile=profile, model=model, model_base_url=model_base_url, embedder=embedder
        ).values
        from wenmai.cli.talking import talk  # noqa: PLC0415 — it loads the engine and the line editor

        asyncio.run(talk(settings, scope, npc_id=persona, session_id=session, incognito=incognito, history=history))
