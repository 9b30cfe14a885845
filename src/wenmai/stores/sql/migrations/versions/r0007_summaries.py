"""Rolling summaries of threads."""

from alembic import op

from wenmai.stores.postgresql.ddl import table_ddl
from wenmai.stores.records.base import RecordSpec

revision = "0007"
down_revision = "0006"

SUMMARIES = RecordSpec(
    "conversation_summaries", key="ref", filters=("session_id", "npc_id"), bound_to="thread", private=("summary",)
)
COLUMNS = {
    **dict.fromkeys(("ref", "session_id", "incarnation", "npc_id", "summary"), 'text COLLATE "C" NOT NULL'),
    **dict.fromkeys(("summary_version", "covered_message_count", "covered_through"), "bigint NOT NULL"),
    **dict.fromkeys(("covered_id", "written_by"), 'text COLLATE "C" NOT NULL'),
    "degraded": "boolean NOT NULL",
}


def upgrade() -> None:
    """Only add; processes of version 6 make no summaries."""
    for statement in table_ddl(SUMMARIES, list(COLUMNS.items())):
        op.execute(statement)
