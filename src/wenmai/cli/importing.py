"""``wenmai import``: conversations of other programs, or exports of ours."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.console import complain, counted, expected_errors, name_skipped
from wenmai.cli.options import NOBODY, ConfigFile, ProfileName, Site, StoreUrl, Tenant, User, checked_scope, load
from wenmai.cli.progress import bar
from wenmai.cli.remembering import opened_memory
from wenmai.interchange import FORMATS, Report, check_choices, import_files
from wenmai.memory.manager import ASSISTANT
from wenmai.scope import Scope
from wenmai.settings import Settings

Files = Annotated[list[Path], typer.Argument(help="Files to read", exists=True, dir_okay=False, readable=True)]
FormatName = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMATS)}; told from the content if not given", show_default=False),
]


def import_(
    paths: Files,
    *,
    format_name: FormatName = None,
    persona: Annotated[str, typer.Option(help="The persona of messages that name none")] = ASSISTANT,
    tenant: Tenant = NOBODY.tenant_id,
    site: Site = NOBODY.site_id,
    user: User = NOBODY.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Import conversations: JSON lines, OpenAI chats, LoCoMo files. May be repeated: nothing is doubled."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        check_choices(format_name, persona)
        report = asyncio.run(_import(settings, scope, paths, format_name, persona))
    for note in report.notes:
        complain(note)
    name_skipped(report.skipped, report.skipped_count)
    typer.echo(
        f"{counted(report.sessions, 'session')} ({report.created} new), "
        f"{counted(report.messages, 'message')} added, {report.repeated} there already"
    )
    if report.skipped_count:
        raise typer.Exit(1)


async def _import(
    settings: Settings, scope: Scope, paths: Sequence[Path], format_name: str | None, persona: str
) -> Report:
    with bar("import", sum(path.stat().st_size for path in paths)) as shown:

        def on_progress(position: int, report: Report) -> None:
            shown.show(position, counted(report.messages + report.repeated, "message"))

        async with opened_memory(settings) as memory:
            return await import_files(
                memory, scope, paths, format_name=format_name, npc_id=persona, on_progress=on_progress
            )
