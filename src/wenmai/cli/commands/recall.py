"""``wenmai recall``: what a user's conversations say about a question."""

import asyncio
from contextlib import suppress
from typing import Annotated, Literal

import msgspec
import typer

from wenmai.cli.memory import memory_from_settings, require_existing_store
from wenmai.cli.options import (
    DEFAULT_SCOPE,
    ConfigFile,
    EmbedderName,
    ProfileName,
    Site,
    StoreUrl,
    Tenant,
    User,
    checked_scope,
    load,
)
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr
from wenmai.config.settings import Settings
from wenmai.memory.recalled_items import RecalledItem, RecallQuery
from wenmai.scope import Scope
from wenmai.text.printable import printable

INDEX_SECONDS = 5.0
"""For messages that are not indexed yet; the rest is indexed by the service, or by the next command."""


def recall(
    query: Annotated[str, typer.Argument(help="The question")],
    *,
    session: Annotated[str | None, typer.Option(help="Only this session; default: all", show_default=False)] = None,
    persona: Annotated[str | None, typer.Option(help="Only this persona", show_default=False)] = None,
    unit: Annotated[
        Literal["message", "turn"], typer.Option(help="Single messages, or questions with their answers")
    ] = "message",
    top: Annotated[int, typer.Option(min=1, max=200, help="Most items")] = 10,
    mmr_lambda: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Weight of relevance against diversity; default: no reordering", show_default=False
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines, with the reasons of each score")] = False,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
    embedder: EmbedderName = None,
) -> None:
    """Recall what a user's conversations say about a question, best first."""
    scope = checked_scope(tenant, site, user)
    asked = RecallQuery(
        query=query, session_id=session, persona_id=persona, unit=unit, top_k=top, mmr_lambda=mmr_lambda
    )
    with expected_errors():
        settings = load(config, store=store, profile=profile, embedder=embedder).values
        require_existing_store(settings.store)
        items = asyncio.run(_recall(settings, scope, asked))
    for item in items:
        typer.echo(msgspec.json.encode(item).decode() if as_json else printable(_shown(item)))
    print_stderr(pluralize(len(items), "item"))


async def _recall(settings: Settings, scope: Scope, asked: RecallQuery) -> list[RecalledItem]:
    async with memory_from_settings(settings) as memory:
        with suppress(TimeoutError):
            async with asyncio.timeout(INDEX_SECONDS):
                await memory.derived.sweep()
                await memory.derived.catch_up()
        return await memory.recalls.recall(scope, asked)


def _shown(item: RecalledItem) -> str:
    place = f"{item.timestamp:%Y-%m-%d %H:%M}  {item.session_id} {item.persona_id} #{item.turn_id}"
    return "\n        ".join([f"{item.score:6.2f}  {place}", *item.text.splitlines()])
