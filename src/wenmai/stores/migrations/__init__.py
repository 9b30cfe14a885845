"""The tables of the PostgreSQL store as Alembic revisions, applied one after another.

Alembic writes the statements; the store runs them itself, in one transaction and under a lock, so that no second
driver is needed. To change the tables, add a module to ``versions`` with the next number and move ``REVISION``.
"""

from io import StringIO
from pathlib import Path

REVISION = "0001"
"""The revision that this Wenmai reads and writes; revisions are numbers, ascending."""

VERSION_TABLE = "wenmai_version"
"""Where Alembic notes the revision; of a name of its own, so that other programs' revisions are not taken for it."""

FOLDER = Path(__file__).parent


def upgrade_script(found: str | None) -> str:
    """The SQL that leads from the revision ``found``, None for an empty database, to :data:`REVISION`."""
    from alembic import command  # noqa: PLC0415 — takes 0.3 s, and only a schema that is not current needs it
    from alembic.config import Config  # noqa: PLC0415

    written = StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", str(FOLDER).replace("%", "%%"))
    command.upgrade(config, REVISION if found is None else f"{found}:{REVISION}", sql=True)
    return written.getvalue()
