"""``wenmai export``: sessions and messages as JSON lines."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from wenmai.cli.memory import memory_from_settings, require_existing_store
from wenmai.cli.options import DEFAULT_SCOPE, ConfigFile, ProfileName, Site, StoreUrl, Tenant, User, checked_scope, load
from wenmai.cli.terminal.output import expected_errors, pluralize, print_stderr
from wenmai.cli.terminal.progress import bar
from wenmai.config.settings import Settings
from wenmai.errors import InvalidInput
from wenmai.interchange import export_lines
from wenmai.scope import Scope

_DATABASE = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""


def export_(
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: stdout", dir_okay=False)
    ] = None,
    session: Annotated[
        list[str] | None,
        typer.Option(
            help="Id of a session to export; repeatable; default: all sessions of the user", show_default=False
        ),
    ] = None,
    traces: Annotated[bool, typer.Option("--traces", help="Export the traces too")] = False,
    tenant: Tenant = DEFAULT_SCOPE.tenant_id,
    site: Site = DEFAULT_SCOPE.site_id,
    user: User = DEFAULT_SCOPE.user_id,
    store: StoreUrl = None,
    profile: ProfileName = None,
    config: ConfigFile = None,
) -> None:
    """Export the user's sessions as JSON lines, in the format of `wenmai import`."""
    scope = checked_scope(tenant, site, user)
    with expected_errors():
        settings = load(config, store=store, profile=profile).values
        require_existing_store(settings.store)
        if output is None:
            asyncio.run(_export(sys.stdout.buffer, settings, scope, session, traces=traces))
            return
        with _output_file(output) as file:
            sessions, messages = asyncio.run(_export(file, settings, scope, session, traces=traces))
    print_stderr(f"{output}: {pluralize(sessions, 'session')}, {pluralize(messages, 'message')}")


@contextmanager
def _output_file(path: Path) -> Iterator[BinaryIO]:
    """A file is written beside its place and renamed when it is complete; a device or a pipe is written into.

    Raises:
        InvalidInput: it cannot be written, or is a database, such as the store.
    """
    special = path.exists() and not path.is_file()
    target = path if special else path.resolve()
    part = path if special else target.with_name(f"{target.name}.part")
    try:
        if path.is_file():
            _refuse_database(path)
        with part.open("wb") as file:
            yield file
        if not special:
            part.replace(target)
    except OSError as problem:
        raise InvalidInput("output", str(path), f"a writable file: {problem.strerror}") from problem
    finally:
        if not special:
            part.unlink(missing_ok=True)


def _refuse_database(path: Path) -> None:
    with path.open("rb") as file:
        if file.read(len(_DATABASE)) == _DATABASE:
            raise InvalidInput("output", str(path), "a file other than a database")


async def _export(
    file: BinaryIO, settings: Settings, scope: Scope, sessions: Sequence[str] | None, *, traces: bool
) -> tuple[int, int]:
    """Export; the numbers of sessions and messages written."""
    written = {"session": 0, "message": 0}
    with bar("export") as progress:
        async with memory_from_settings(settings) as memory:
            async for line in export_lines(memory, scope, sessions, traces=traces):
                file.write(line)
                kind = line.partition(b'":"')[2].partition(b'"')[0].decode()
                written[kind] = written.get(kind, 0) + 1
                progress.show(sum(written.values()), pluralize(written["message"], "message"))
    file.flush()
    return written["session"], written["message"]
