"""Derived memory: named leases, and watermarks by thread."""

from pathlib import Path

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Replace the leases on threads by named leases, and create the watermarks."""
    op.execute(Path(__file__).with_name("r0006_derived.sql").read_text(encoding="utf-8"))
