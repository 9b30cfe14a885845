"""API keys with a rate limit of their own."""

from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    """Only add; processes of version 13 limit all keys by the setting."""
    op.execute("ALTER TABLE api_keys ADD COLUMN rate_limit text COLLATE \"C\" NOT NULL DEFAULT ''")
