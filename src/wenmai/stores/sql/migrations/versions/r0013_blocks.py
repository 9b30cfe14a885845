"""Postings in blocks, and entries that know their terms."""

from pathlib import Path

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    """Join the postings of a term by blocks; processes of version 12 cannot search any more."""
    op.execute(Path(__file__).with_name("r0013_blocks.sql").read_text(encoding="utf-8"))
