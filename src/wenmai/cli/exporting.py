"""``wenmai export``: sessions and messages as JSON lines."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from wenmai.cli.console import complain, counted, run
from wenmai.cli.options import NOBODY, ConfigFile, ProfileName, Site, StoreUrl, Tenant, User, checked_scope, load
from wenmai.cli.progress import Bar, bar
from wenmai.cli.remembering import opened_memory
from wenmai.interchange import export_lines
from wenmai.scope import Scope
from wenmai.settings import Settings


def export_(
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; stdout if none", dir_okay=False)
    ] = None,
    session: Annotated[
        list[str] | None, typer.Option(help="A session to export; all of the user's if none", show_default=False)
    ] = None,
    tenant: Tenant = NOBODY.tenant_id,
    site: Site = NOBODY.site_id,
    user: User = NOBODY.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Write the user's sessions as JSON lines, which `wenmai import` gives back equal."""
    scope = checked_scope(tenant, site, user)
    if output is None:
        run(_export(sys.stdout.buffer, scope, session, config=config, store=store, profile=profile))
        return
    # Written beside and then renamed: what is called export is whole.
    part = output.with_name(f"{output.name}.part")
    try:
        with part.open("wb") as file:
            sessions, messages = run(_export(file, scope, session, config=config, store=store, profile=profile))
        part.replace(output)
    except OSError as problem:
        complain(f"wenmai: cannot write {output}: {problem.strerror}")
        raise typer.Exit(1) from problem
    finally:
        part.unlink(missing_ok=True)
    complain(f"{output}: {counted(sessions, 'session')}, {counted(messages, 'message')}")


async def _export(
    file: BinaryIO, scope: Scope, sessions: Sequence[str] | None, **options: object
) -> tuple[int, int]:
    """How many sessions and messages were written."""
    seen = [0, 0]
    with bar("export") as shown:
        async with opened_memory(settings) as memory:
            async for line in export_lines(memory, scope, sessions):
                file.write(line)
                seen[line.startswith(b'{"type":"message"')] += 1
                shown.show(sum(seen), f"{seen[1]} messages")
    file.flush()
    return seen[0], seen[1]
