"""The search contract, second version: vectors in a table of their own, fields with the hits, ranges."""

from pathlib import Path

from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Move the vectors, complete the entries, and make filters comparable."""
    op.execute(Path(__file__).with_name("r0005_search.sql").read_text(encoding="utf-8"))
