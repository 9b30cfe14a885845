"""Making the tables of a new file, and leading those of an older Wenmai up to ours."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

import apsw

from wenmai.errors import StoreTooNew, StoreUnavailable
from wenmai.stores.sqlite.lanes import fetch, translated_errors
from wenmai.stores.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION, connect, schema_ddl
from wenmai.stores.upgrades import OnStep, Schema, Step

UPGRADE_MILLISECONDS = 60_000
"""How long a process waits for another one's upgrade before it reports the store unavailable."""

_USAGE = (
    """CREATE TABLE usage (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  day TEXT,
  kind TEXT,
  of TEXT,
  calls INTEGER,
  prompt_tokens INTEGER,
  completion_tokens INTEGER,
  cost_usd REAL,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    "CREATE INDEX usage_by_age ON usage (tenant_id, site_id, created_at, ref)",
    "CREATE INDEX usage_by_end ON usage (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX usage_by_day ON usage (tenant_id, site_id, day, created_at, ref)",
)

UPGRADES: Mapping[int, Sequence[str]] = {2: _USAGE}
"""Version → what leads there from the version before, in words that later declarations of records do not change."""


def prepare_schema(path: Path, on_step: OnStep) -> None:
    """Create the tables in a new file, upgrade those of an older version; refuse what is not ours or is newer.

    Every step holds the write lock and is one transaction. Of processes that start together one does it.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it cannot be opened or written, or is another program's database.
    """
    connection = connect(path)
    try:
        with translated_errors(path):
            if schema_in(connection, path).found < SCHEMA_VERSION:
                connection.set_busy_timeout(UPGRADE_MILLISECONDS)
                while _step(connection, path, on_step):
                    pass
            _check_writable(connection)
    finally:
        connection.close()


def schema_in(connection: apsw.Connection, path: Path) -> Schema:
    """The version of the tables, which are ours.

    Raises:
        StoreTooNew: a newer Wenmai made them.
        StoreUnavailable: another program did.
    """
    if connection.pragma("application_id") == APPLICATION_ID:
        found = connection.pragma("user_version")
        if found > SCHEMA_VERSION:
            raise StoreTooNew(str(path), found=found, known=SCHEMA_VERSION)
        return Schema(found, SCHEMA_VERSION)
    if fetch(connection, "SELECT count(*) FROM sqlite_schema")[0][0]:
        raise StoreUnavailable("sqlite", f"{path} is not a Wenmai store")
    return Schema(0, SCHEMA_VERSION)


def _step(connection: apsw.Connection, path: Path, on_step: OnStep) -> bool:
    """Do what is next, unless another process has done it; False if the tables are current."""
    began = monotonic()
    connection.execute("BEGIN IMMEDIATE")
    found = schema_in(connection, path).found
    if found == SCHEMA_VERSION:
        connection.execute("COMMIT")
        return False
    reached = found + 1 if found else SCHEMA_VERSION
    step = Step("sqlite", found, reached, *_held(connection, found))
    on_step(step)
    for statement in UPGRADES[reached] if found else schema_ddl():
        connection.execute(statement)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", reached)
    connection.execute("COMMIT")
    on_step(step._replace(seconds=monotonic() - began))
    return True


def _check_writable(connection: apsw.Connection) -> None:
    """Write something, the version that is there: a full disk is told now and not at the first message."""
    connection.execute("BEGIN IMMEDIATE")
    connection.pragma("user_version", connection.pragma("user_version"))
    connection.execute("COMMIT")


def _held(connection: apsw.Connection, found: int) -> tuple[int, int]:
    """How many sessions and messages there are."""
    if not found:
        return 0, 0
    rows = fetch(connection, "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages)")
    return rows[0][0], rows[0][1]
