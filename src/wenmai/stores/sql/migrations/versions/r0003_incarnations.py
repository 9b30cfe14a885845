"""Incarnations: bound records are deleted with their session, and are absent under a reused id."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Give every session and its bound records an incarnation; purge unreachable rows in batches."""
    for part in ("incarnations", "appends", "purged"):
        op.execute(Path(__file__).with_name(f"r0003_{part}.sql").read_text(encoding="utf-8"))
