"""Versions of a source of evidence."""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    """Only add; what processes of version 10 write has no versions."""
    for column in ("effective_date", "supersedes"):
        op.execute(f"""ALTER TABLE evidence ADD COLUMN {column} text COLLATE "C" NOT NULL DEFAULT ''""")
    op.execute(
        "CREATE INDEX evidence_by_supersedes ON evidence"
        " (tenant_id, site_id, left(supersedes, 64), created_at, evidence_id) WHERE row_id > 0"
    )
