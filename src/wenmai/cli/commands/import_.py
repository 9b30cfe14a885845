"""``wenmai import``: import conversations from exports and other programs."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from wenmai.cli.memory import memory_from_settings
from wenmai.cli.options import DEFAULT_SCOPE, ConfigFile, ProfileName, Site, StoreUrl, Tenant, User, checked_scope, load
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr, report_skipped
from wenmai.cli.terminal.progress import bar
from wenmai.config.settings import Settings
from wenmai.interchange import FORMATS, Report, check_choices, import_files
from wenmai.memory.history import ASSISTANT
from wenmai.memory.library import Memory
from wenmai.scope import Scope

Files = Annotated[list[Path], typer.Argument(help="Files to read", exists=True, dir_okay=False, readable=True)]
FormatName = Annotated[
    str | None,
    typer.Option("--format", help=f"{', '.join(FORMATS)}; default: detected from the content", show_default=False),
]


def import_(
    paths: Files,
    *,
    format_name: FormatName = None,
    persona: Annotated[str, typer.Option(help="The persona of messages without one")] = ASSISTANT,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Import conversations: JSON lines, OpenAI chats, LoCoMo files. Idempotent: a repeated import adds nothing."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        check_choices(format_name, persona)
        report = asyncio.run(_import(settings, scope, paths, format_name, persona))
    for note in report.notes:
        print_stderr(note)
    report_skipped(report.skipped, report.skipped_count)
    typer.echo(
        f"{pluralize(report.sessions, 'session')} ({report.created} new), "
        f"{pluralize(report.messages, 'message')} added, {report.repeated} already stored"
    )
    if report.skipped_count:
        raise typer.Exit(1)


async def _import(
    settings: Settings, scope: Scope, paths: Sequence[Path], format_name: str | None, persona: str
) -> Report:
    with bar("import", sum(path.stat().st_size for path in paths)) as progress:

        def on_progress(position: int, report: Report) -> None:
            progress.show(position, pluralize(report.messages + report.repeated, "message"))

        async with memory_from_settings(settings) as memory:
            report = await import_files(
                memory, scope, paths, format_name=format_name, persona_id=persona, on_progress=on_progress
            )
            await _index(memory, report)
            return report


async def _index(memory: Memory, report: Report) -> None:
    """Wait until the messages are found by words; vectors may take hours. Interrupted, the service goes on."""
    if report.repeated:  # an import that was interrupted left threads that are not known here
        await memory.derived.sweep()
    with bar("index", report.sessions) as progress:

        def on_progress(left: int) -> None:
            progress.show(max(0, report.sessions - left), pluralize(left, "thread") + " left")

        await memory.derived.work_off(memory.word_functions, on_progress)
