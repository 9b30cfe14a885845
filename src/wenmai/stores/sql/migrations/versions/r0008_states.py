"""Business states of sessions, and their audit."""

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0008"
down_revision = "0007"

TEXT = 'text COLLATE "C" NOT NULL'
TABLES = (
    (
        RecordSpec("business_states", key="session_id", bound_to="session", cached=True),
        {
            **dict.fromkeys(("session_id", "incarnation"), TEXT),
            "current_customer_id": 'text COLLATE "C"',
            "operation_chain": "json NOT NULL",
            "state_version": "bigint NOT NULL",
            "changes": "json NOT NULL",
        },
    ),
    (
        RecordSpec("business_state_audit", key="ref", filters=("session_id",), bound_to="session"),
        {**dict.fromkeys(("ref", "session_id", "incarnation"), TEXT), "changes": "json NOT NULL"},
    ),
)


def upgrade() -> None:
    """Only add; processes of version 7 keep no business state."""
    for spec, columns in TABLES:
        for statement in table_ddl(spec, list(columns.items())):
            op.execute(statement)
