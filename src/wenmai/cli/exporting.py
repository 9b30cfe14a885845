"""``wenmai export``: sessions and messages as JSON lines."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from wenmai.cli.console import complain, counted, expected_errors
from wenmai.cli.options import NOBODY, ConfigFile, ProfileName, Site, StoreUrl, Tenant, User, checked_scope, load
from wenmai.cli.progress import bar
from wenmai.cli.remembering import check_there, opened_memory
from wenmai.errors import InvalidInput
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
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        check_there(settings.store)
        if output is None:
            asyncio.run(_export(sys.stdout.buffer, settings, scope, session))
            return
        with _whole(output) as file:
            sessions, messages = asyncio.run(_export(file, settings, scope, session))
    complain(f"{output}: {counted(sessions, 'session')}, {counted(messages, 'message')}")


@contextmanager
def _whole(path: Path) -> Iterator[BinaryIO]:
    """A file that has its name only when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(path)
    except OSError as problem:
        raise InvalidInput("output", str(path), f"a file that can be written: {problem.strerror}") from problem
    finally:
        part.unlink(missing_ok=True)


async def _export(file: BinaryIO, settings: Settings, scope: Scope, sessions: Sequence[str] | None) -> tuple[int, int]:
    """How many sessions and messages were written."""
    seen = {"session": 0, "message": 0}
    with bar("export") as shown:
        async with opened_memory(settings) as memory:
            async for line in export_lines(memory, scope, sessions):
                file.write(line)
                seen["message" if line.startswith(b'{"type":"message"') else "session"] += 1
                shown.show(sum(seen.values()), counted(seen["message"], "message"))
    file.flush()
    return seen["session"], seen["message"]
