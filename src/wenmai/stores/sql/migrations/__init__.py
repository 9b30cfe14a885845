"""Migrations of the PostgreSQL store: Alembic revisions, applied one after another.

Alembic generates the SQL; the store runs it, each revision in one transaction under a lock, so no second driver is
needed. To change the tables, add a module to ``versions`` with the next number and update :data:`REVISION`.
"""

from functools import cache
from io import StringIO
from pathlib import Path

from wenmai.errors import MissingExtra

REVISION = "0014"
"""The revision that this Wenmai reads and writes; revisions are numbers, ascending."""

VERSION_TABLE = "wenmai_version"
"""The table with Alembic's revision; its name avoids confusion with revisions of other programs."""

FOLDER = Path(__file__).parent


@cache
def upgrade_script(found: int) -> str:
    """The SQL of the upgrade from revision ``found`` (0 for an empty database) to the next one; made once a process.

    Raises:
        MissingExtra: Alembic is not installed.
    """
    try:
        from alembic import command  # noqa: PLC0415 — takes 0.3 s, and only an outdated schema needs it
        from alembic.config import Config  # noqa: PLC0415
    except ModuleNotFoundError as missing:
        raise MissingExtra((missing.name or "alembic").partition(".")[0], "postgresql") from missing

    written = StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    reached = f"{found + 1:04}"
    command.upgrade(config, f"{found:04}:{reached}" if found else reached, sql=True)
    return written.getvalue()
