"""Markers have a table of their own; the purge removes records of the tables in its argument."""

from pathlib import Path

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0004"
down_revision = "0003"

MARKERS = RecordSpec("markers", key="name", shared=True)


def upgrade() -> None:
    """Only add; processes of version 3 keep their markers in active_versions."""
    for statement in table_ddl(MARKERS, [(field, 'text COLLATE "C" NOT NULL') for field in ("name", "value")]):
        op.execute(statement)
    op.execute(Path(__file__).with_name("r0004_purge.sql").read_text(encoding="utf-8"))
