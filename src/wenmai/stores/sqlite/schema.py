"""The tables: one per record type, generated from its declaration, and those of logs and search."""

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import apsw

from wenmai.clock import from_micros, to_micros
from wenmai.errors import StoreUnavailable
from wenmai.stores.records import RECORDS, Record
from wenmai.stores.sql.columns import Kind, SqlType, columns_of, same
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.errors import translated_errors

SCHEMA_VERSION = 14
"""Version of the tables below; each change increments it and adds a step to :mod:`.upgrades`."""

APPLICATION_ID = 0x57454E4D
"""``WENM``: marks the files of Wenmai (SQLite's ``application_id``)."""

BUSY_MILLISECONDS = 5000
"""How long a writer waits for another process's transaction before it reports the store unavailable."""


SQL_TYPES: Mapping[Kind, SqlType] = {
    "text": SqlType("TEXT", same, same),
    "boolean": SqlType("INTEGER", int, bool),
    "integer": SqlType("INTEGER", same, same),
    "real": SqlType("REAL", same, same),
    "timestamp": SqlType("INTEGER", to_micros, from_micros),
    "json": SqlType("TEXT", same, same),
}
"""Column types of record fields; timestamps are microseconds since 1970 UTC."""


@cache
def _document_ddl(record: type[Record]) -> tuple[str, ...]:
    return tuple(_document_statements(record))


def _document_statements(record: type[Record]) -> Iterable[str]:
    spec = record.spec
    fields = ",\n  ".join(f"{column.name} {column.sql_type}" for column in columns_of(record, SQL_TYPES))
    owner = "tenant_id, site_id" if spec.shared else "tenant_id, site_id, user_id"
    yield f"""CREATE TABLE {spec.collection} (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  {fields},
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, {spec.key})
) STRICT"""
    name = spec.collection
    yield f"CREATE INDEX {name}_by_age ON {name} ({owner}, created_at, {spec.key})"
    yield f"CREATE INDEX {name}_by_end ON {name} (keep_until) WHERE keep_until IS NOT NULL"
    for field in spec.filters:
        yield f"CREATE INDEX {name}_by_{field} ON {name} ({owner}, {field}, created_at, {spec.key})"
    if spec.bound_to:
        yield f"CREATE INDEX {name}_by_incarnation ON {name} (incarnation)"


_LOGS_DDL = (
    # Thread numbers are never reused, so no reader finds another thread's rows under the number of a deleted one.
    """CREATE TABLE threads (
  thread INTEGER PRIMARY KEY AUTOINCREMENT,
  incarnation TEXT NOT NULL,
  npc_id TEXT NOT NULL,
  label TEXT NOT NULL,
  UNIQUE (incarnation, npc_id)
) STRICT""",
    # Generated message ids consist of the thread's label and the sequence number, so only given ids need an index.
    """CREATE TABLE messages (
  thread INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  turn_id INTEGER NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  given_id TEXT,
  name TEXT,
  tool_calls TEXT,
  tool_call_id TEXT,
  metadata TEXT,
  PRIMARY KEY (thread, seq)
) STRICT, WITHOUT ROWID""",
    "CREATE UNIQUE INDEX messages_by_given_id ON messages (thread, given_id) WHERE given_id IS NOT NULL",
    # Rows bound to an incarnation are unreachable once its session's record is deleted, swept, or replaced after its
    # expiry. They are purged afterwards, in batches.
    """CREATE TABLE purges (
  incarnation TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID""",
    """CREATE TRIGGER a_session_is_gone AFTER DELETE ON conversations BEGIN
  INSERT OR IGNORE INTO purges (incarnation) VALUES (old.incarnation);
END""",
    "CREATE INDEX messages_unfinished ON messages (thread, turn_id) WHERE completed = 0",
)

_SEARCH_DDL = (
    """CREATE TABLE search_partitions (
  partition INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  shared INTEGER NOT NULL,
  collection TEXT NOT NULL,
  dimension INTEGER NOT NULL,
  entries INTEGER NOT NULL,
  length INTEGER NOT NULL,
  vectors INTEGER NOT NULL,
  changes INTEGER NOT NULL,
  UNIQUE (tenant_id, site_id, user_id, shared, collection)
) STRICT""",
    # The terms, a JSON list, find the entry's postings without an index by entry.
    """CREATE TABLE search_entries (
  entry INTEGER PRIMARY KEY,
  partition INTEGER NOT NULL,
  id TEXT NOT NULL,
  length INTEGER NOT NULL,
  number INTEGER,
  digest BLOB NOT NULL,
  fields TEXT NOT NULL,
  terms TEXT NOT NULL,
  UNIQUE (partition, id)
) STRICT""",
    "CREATE INDEX search_entries_without_vector ON search_entries (partition, id) WHERE number IS NULL",
    # Numbers are never reused, so that vectors in memory can follow the table.
    """CREATE TABLE search_vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  partition INTEGER NOT NULL,
  entry INTEGER NOT NULL,
  vector BLOB NOT NULL
) STRICT""",
    "CREATE INDEX search_vectors_by_partition ON search_vectors (partition)",
    """CREATE TABLE search_postings (
  partition INTEGER NOT NULL,
  term TEXT NOT NULL,
  block INTEGER NOT NULL,
  postings BLOB NOT NULL,
  PRIMARY KEY (partition, term, block)
) STRICT, WITHOUT ROWID""",
    """CREATE TABLE search_fields (
  partition INTEGER NOT NULL,
  field TEXT NOT NULL,
  value ANY NOT NULL,
  entry INTEGER NOT NULL,
  PRIMARY KEY (partition, field, value, entry)
) STRICT, WITHOUT ROWID""",
    "CREATE INDEX search_fields_by_entry ON search_fields (entry)",
)


def schema_ddl() -> tuple[str, ...]:
    """The statements that create an empty store, in order."""
    documents = [statement for record in RECORDS for statement in _document_ddl(record)]
    return (*documents, *_LOGS_DDL, *_SEARCH_DDL)


def connect(path: Path) -> apsw.Connection:
    """Open a connection with the durability that the store promises.

    Raises:
        StoreUnavailable: the file cannot be opened or is not a database.
    """
    with translated_errors(path):
        connection = apsw.Connection(str(path), statementcachesize=256)
        connection.set_busy_timeout(BUSY_MILLISECONDS)
        mode = fetch(connection, "PRAGMA journal_mode = WAL")[0][0]
        if mode != "wal":
            raise StoreUnavailable("sqlite", f"write-ahead logging does not work on the file system of {path}")
        connection.execute("PRAGMA synchronous = FULL")
        # Without the stability guarantee, each new binding of a range re-prepares the statement: 25 µs instead of 5.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    return connection
