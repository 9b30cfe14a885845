"""Erasures of users, the audit log, and when imported sessions began."""

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0010"
down_revision = "0009"

TEXT = 'text COLLATE "C" NOT NULL'
ERASURES = {
    **dict.fromkeys(("erasure_id", "subject", "state", "for_tenant", "for_site", "for_user"), TEXT),
    "started_at": "timestamptz NOT NULL",
    "finished_at": "timestamptz",
    "counted": "boolean NOT NULL",
    **dict.fromkeys(("incarnations", "removed", "receipt"), "json NOT NULL"),
}

AUDIT_ENTRIES = {
    "ref": TEXT,
    "number": "bigint NOT NULL",
    "at": "timestamptz NOT NULL",
    **dict.fromkeys(("act", "actor"), TEXT),
    "details": "json NOT NULL",
    **dict.fromkeys(("previous", "digest"), TEXT),
}
TABLES = (
    (RecordSpec("erasures", key="erasure_id", shared=True, filters=("subject", "state")), ERASURES),
    (RecordSpec("audit_entries", key="ref", shared=True), AUDIT_ENTRIES),
)


def upgrade() -> None:
    """Only add; processes of version 9 erase no users."""
    op.execute("ALTER TABLE conversations ADD COLUMN began_at timestamptz")
    for spec, columns in TABLES:
        for statement in table_ddl(spec, list(columns.items())):
            op.execute(statement)
