"""Encrypted fields, and the data keys of users."""

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0012"
down_revision = "0011"

TEXT = 'text COLLATE "C" NOT NULL'
PRIVATE = (
    "conversations",
    "preferences",
    "idempotent_turns",
    "traces",
    "conversation_summaries",
    "business_states",
    "business_state_audit",
)
DATA_KEYS = dict.fromkeys(("ref", "key_id", "master_id", "wrapped", "for_tenant", "for_site", "for_user"), TEXT)


def upgrade() -> None:
    """Only add; processes of version 11 encrypt nothing."""
    for table in PRIVATE:
        op.execute(f"ALTER TABLE {table} ADD COLUMN sealed {TEXT} DEFAULT ''")
    for statement in table_ddl(RecordSpec("data_keys", key="ref", shared=True), list(DATA_KEYS.items())):
        op.execute(statement)
