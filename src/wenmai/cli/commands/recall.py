"""``wenmai recall``: what a user's conversations say about a question."""

import asyncio
from contextlib import suppress
from datetime import datetime
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
from wenmai.errors import InvalidInput
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
    top: Annotated[
        int | None,
        typer.Option(
            min=1, max=200, help="Most items; default: 10, or with a budget as many as fit", show_default=False
        ),
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(min=1, help="Token budget of all texts; default: none", show_default=False)
    ] = None,
    before: Annotated[
        str | None, typer.Option(help="Only messages before this time, as 2026-01-05T14:00:00Z", show_default=False)
    ] = None,
    after: Annotated[str | None, typer.Option(help="Only messages at or after this time", show_default=False)] = None,
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
    with expected_errors():
        asked = RecallQuery(
            query=query,
            session_id=session,
            persona_id=persona,
            unit=unit,
            top_k=top,
            budget_tokens=budget_tokens,
            before=_time("before", before),
            after=_time("after", after),
            mmr_lambda=mmr_lambda,
        )
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


def _time(field: str, given: str | None) -> datetime | None:
    try:
        return None if given is None else msgspec.convert(given, datetime)
    except msgspec.ValidationError as problem:
        raise InvalidInput(field, given, "an RFC 3339 timestamp, such as 2026-01-05T14:00:00Z") from problem


def _shown(item: RecalledItem) -> str:
    place = f"{item.timestamp:%Y-%m-%d %H:%M}  {item.session_id} {item.persona_id} #{item.turn_id}"
    return "\n        ".join([f"{item.score:6.2f}  {place}", *item.text.splitlines()])
