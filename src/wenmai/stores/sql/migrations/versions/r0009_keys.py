"""API keys."""

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0009"
down_revision = "0008"

TEXT = 'text COLLATE "C" NOT NULL'
COLUMNS = {
    **dict.fromkeys(("key_id", "name", "digest", "for_tenant"), TEXT),
    "for_sites": "json NOT NULL",
    "for_user": TEXT,
    "rights": "json NOT NULL",
    **dict.fromkeys(("expires_at", "revoked_at"), "timestamptz"),
}


def upgrade() -> None:
    """Only add; processes of version 8 ask for no keys."""
    for statement in table_ddl(RecordSpec("api_keys", key="key_id", shared=True), list(COLUMNS.items())):
        op.execute(statement)
