"""Model usage by session, user and tenant, per day."""

from pathlib import Path

from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create the table of the record type; make lookups by key and appends faster."""
    for part in ("usage", "listing", "slide"):
        op.execute(Path(__file__).with_name(f"r0002_{part}.sql").read_text(encoding="utf-8"))
