"""Incarnations: what hangs on a session goes with it, and is absent under an id that is taken again."""

from pathlib import Path

from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Give every session an incarnation, and what hangs on it too; remove in slices what can no longer be reached."""
    for part in ("incarnations", "appends", "purged"):
        op.execute(Path(__file__).with_name(f"r0003_{part}.sql").read_text(encoding="utf-8"))
