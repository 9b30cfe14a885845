"""Documents, logs and search: the first tables."""

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create everything."""
    for part in ("documents", "logs", "search"):
        op.execute(Path(__file__).with_name(f"r0001_{part}.sql").read_text(encoding="utf-8"))
