"""Creating the tables of a new file, and upgrading those of an older Wenmai."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic

import apsw

from wenmai.errors import StoreTooNew, StoreUnavailable
from wenmai.stores.sqlite.connection_threads import fetch
from wenmai.stores.sqlite.errors import translated_errors
from wenmai.stores.sqlite.schema import APPLICATION_ID, SCHEMA_VERSION, connect, schema_ddl
from wenmai.stores.upgrades import OnStep, Schema, Step

UPGRADE_MILLISECONDS = 60_000
"""How long a process waits for an upgrade by another process before it reports the store unavailable."""

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

_LOOKUP = (
    "SELECT c.incarnation FROM conversations c WHERE c.tenant_id = {0}.tenant_id AND c.site_id = {0}.site_id "
    "AND c.session_id = {0}.session_id AND c.user_id = {0}.user_id"
)

_TRACES = (
    """CREATE TABLE traces_by_ref (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  trace_id TEXT,
  started_at INTEGER,
  completed_at INTEGER,
  session_id TEXT,
  incarnation TEXT,
  npc_id TEXT,
  turn_id INTEGER,
  request_input TEXT,
  tool_calls TEXT,
  intent TEXT,
  evidence_ids TEXT,
  policy_mode TEXT,
  policy_reason TEXT,
  blocks TEXT,
  answer TEXT,
  model TEXT,
  prompt_tokens INTEGER,
  completion_tokens INTEGER,
  cost_usd REAL,
  latency_ms REAL,
  degraded TEXT,
  error TEXT,
  replay_of TEXT,
  details TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    f"""INSERT INTO traces_by_ref SELECT row, tenant_id, site_id, user_id, user_id || '/' || trace_id, trace_id,
  started_at, completed_at, session_id, iif(session_id = '', '', ({_LOOKUP.format("traces")})), npc_id, turn_id,
  request_input, tool_calls, intent, evidence_ids, policy_mode, policy_reason, blocks, answer, model, prompt_tokens,
  completion_tokens, cost_usd, latency_ms, degraded, error, replay_of, details, version, created_at, updated_at,
  keep_until FROM traces""",
    "DROP TABLE traces",
    "ALTER TABLE traces_by_ref RENAME TO traces",
    "DELETE FROM traces WHERE incarnation IS NULL",
    "CREATE INDEX traces_by_age ON traces (tenant_id, site_id, user_id, created_at, ref)",
    "CREATE INDEX traces_by_end ON traces (keep_until) WHERE keep_until IS NOT NULL",
    *(
        f"CREATE INDEX traces_by_{field} ON traces (tenant_id, site_id, user_id, {field}, created_at, ref)"
        for field in ("session_id", "npc_id", "policy_mode", "intent")
    ),
    "CREATE INDEX traces_by_incarnation ON traces (incarnation)",
)

_INCARNATIONS = (
    "ALTER TABLE conversations ADD COLUMN incarnation TEXT",
    "UPDATE conversations SET incarnation = lower(hex(randomblob(8)))",
    "DROP TRIGGER threads_of_a_session_gone",
    """CREATE TABLE threads_by_incarnation (
  thread INTEGER PRIMARY KEY AUTOINCREMENT,
  incarnation TEXT NOT NULL,
  npc_id TEXT NOT NULL,
  label TEXT NOT NULL,
  UNIQUE (incarnation, npc_id)
) STRICT""",
    """INSERT INTO threads_by_incarnation SELECT t.thread, c.incarnation, t.npc_id, t.label FROM threads t
  JOIN conversations c ON c.tenant_id = t.tenant_id AND c.site_id = t.site_id AND c.session_id = t.session_id""",
    "DROP TABLE threads",
    "ALTER TABLE threads_by_incarnation RENAME TO threads",
    "DELETE FROM messages WHERE thread NOT IN (SELECT thread FROM threads)",
    "CREATE TABLE purges (incarnation TEXT PRIMARY KEY) STRICT, WITHOUT ROWID",
    """CREATE TRIGGER a_session_is_gone AFTER DELETE ON conversations BEGIN
  INSERT OR IGNORE INTO purges (incarnation) VALUES (old.incarnation);
END""",
    "ALTER TABLE preferences ADD COLUMN incarnation TEXT",
    f"UPDATE preferences SET incarnation = ({_LOOKUP.format('preferences')})",
    "DELETE FROM preferences WHERE incarnation IS NULL",
    "CREATE INDEX preferences_by_incarnation ON preferences (incarnation)",
    *_TRACES,
    "ALTER TABLE idempotent_turns ADD COLUMN incarnation TEXT",
    "ALTER TABLE idempotent_turns ADD COLUMN attempt_id TEXT",
    "ALTER TABLE idempotent_turns ADD COLUMN asked_session TEXT",
    "UPDATE idempotent_turns SET attempt_id = lower(hex(randomblob(8))), asked_session = session_id",
    f"UPDATE idempotent_turns SET incarnation = ({_LOOKUP.format('idempotent_turns')})",
    "DELETE FROM idempotent_turns WHERE incarnation IS NULL OR response IS NULL OR response = 'null'",
    "CREATE INDEX idempotent_turns_by_incarnation ON idempotent_turns (incarnation)",
    "ALTER TABLE turn_leases ADD COLUMN session_id TEXT",
    "ALTER TABLE turn_leases ADD COLUMN incarnation TEXT",
    "DELETE FROM turn_leases",
    "CREATE INDEX turn_leases_by_incarnation ON turn_leases (incarnation)",
)

_MARKERS = (
    """CREATE TABLE markers (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT,
  value TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, name)
) STRICT""",
    "CREATE INDEX markers_by_age ON markers (tenant_id, site_id, created_at, name)",
    "CREATE INDEX markers_by_end ON markers (keep_until) WHERE keep_until IS NOT NULL",
)
"""Processes of version 3 keep their markers in active_versions."""

_SEARCH = (
    """CREATE TABLE search_vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  partition INTEGER NOT NULL,
  entry INTEGER NOT NULL,
  vector BLOB NOT NULL
) STRICT""",
    """INSERT INTO search_vectors (number, partition, entry, vector)
  SELECT entry, partition, entry, vector FROM search_entries WHERE vector IS NOT NULL ORDER BY entry""",
    "CREATE INDEX search_vectors_by_partition ON search_vectors (partition)",
    """CREATE TABLE postings_with_length (
  partition INTEGER NOT NULL,
  term TEXT NOT NULL,
  entry INTEGER NOT NULL,
  count INTEGER NOT NULL,
  length INTEGER NOT NULL,
  PRIMARY KEY (partition, term, entry)
) STRICT, WITHOUT ROWID""",
    """INSERT INTO postings_with_length SELECT p.partition, p.term, p.entry, p.count, e.length
  FROM search_postings p CROSS JOIN search_entries e ON e.entry = p.entry ORDER BY p.partition, p.term, p.entry""",
    """CREATE TABLE entries_without_vector (
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
    """INSERT INTO entries_without_vector SELECT e.entry, e.partition, e.id, e.length,
  iif(e.vector IS NULL, NULL, e.entry),
  x'', (SELECT json_group_object(f.field, json(f.listed)) FROM (
    SELECT field, iif(count(*) = 1, json_quote(min(value)), json_group_array(value)) AS listed
    FROM search_fields WHERE entry = e.entry GROUP BY field) f),
  (SELECT json_group_array(p.term) FROM search_postings p WHERE p.entry = e.entry) FROM search_entries e""",
    "DROP TABLE search_entries",
    "ALTER TABLE entries_without_vector RENAME TO search_entries",
    "CREATE INDEX search_entries_without_vector ON search_entries (partition, id) WHERE number IS NULL",
    "DROP TABLE search_postings",
    "ALTER TABLE postings_with_length RENAME TO search_postings",
    """CREATE TABLE fields_of_any_type (
  partition INTEGER NOT NULL,
  field TEXT NOT NULL,
  value ANY NOT NULL,
  entry INTEGER NOT NULL,
  PRIMARY KEY (partition, field, value, entry)
) STRICT, WITHOUT ROWID""",
    "INSERT INTO fields_of_any_type SELECT partition, field, value, entry FROM search_fields",
    "DROP TABLE search_fields",
    "ALTER TABLE fields_of_any_type RENAME TO search_fields",
    "CREATE INDEX search_fields_by_entry ON search_fields (entry)",
    """CREATE TABLE partitions_with_vectors (
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
    """INSERT INTO partitions_with_vectors SELECT partition, tenant_id, site_id, user_id, shared, collection,
  coalesce(dimension, 0), entries, length,
  (SELECT count(*) FROM search_vectors v WHERE v.partition = p.partition), 1 FROM search_partitions p""",
    "DROP TABLE search_partitions",
    "ALTER TABLE partitions_with_vectors RENAME TO search_partitions",
)

_DERIVED = (
    "DROP TABLE turn_leases",
    """CREATE TABLE leases (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  name TEXT,
  session_id TEXT,
  incarnation TEXT,
  holder TEXT,
  expires_at INTEGER,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, name)
) STRICT""",
    "CREATE INDEX leases_by_age ON leases (tenant_id, site_id, user_id, created_at, name)",
    "CREATE INDEX leases_by_end ON leases (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX leases_by_incarnation ON leases (incarnation)",
    """CREATE TABLE watermarks (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  session_id TEXT,
  incarnation TEXT,
  function TEXT,
  npc_id TEXT,
  seq INTEGER,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    "CREATE INDEX watermarks_by_age ON watermarks (tenant_id, site_id, user_id, created_at, ref)",
    "CREATE INDEX watermarks_by_end ON watermarks (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX watermarks_by_incarnation ON watermarks (incarnation)",
)

_SUMMARIES = (
    """CREATE TABLE conversation_summaries (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  session_id TEXT,
  incarnation TEXT,
  npc_id TEXT,
  summary TEXT,
  summary_version INTEGER,
  covered_message_count INTEGER,
  covered_through INTEGER,
  covered_id TEXT,
  written_by TEXT,
  degraded INTEGER,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    (
        "CREATE INDEX conversation_summaries_by_age "
        "ON conversation_summaries (tenant_id, site_id, user_id, created_at, ref)"
    ),
    "CREATE INDEX conversation_summaries_by_end ON conversation_summaries (keep_until) WHERE keep_until IS NOT NULL",
    (
        "CREATE INDEX conversation_summaries_by_session_id "
        "ON conversation_summaries (tenant_id, site_id, user_id, session_id, created_at, ref)"
    ),
    (
        "CREATE INDEX conversation_summaries_by_npc_id "
        "ON conversation_summaries (tenant_id, site_id, user_id, npc_id, created_at, ref)"
    ),
    "CREATE INDEX conversation_summaries_by_incarnation ON conversation_summaries (incarnation)",
)

_STATES = (
    """CREATE TABLE business_states (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  session_id TEXT,
  incarnation TEXT,
  current_customer_id TEXT,
  operation_chain TEXT,
  state_version INTEGER,
  changes TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, session_id)
) STRICT""",
    "CREATE INDEX business_states_by_age ON business_states (tenant_id, site_id, user_id, created_at, session_id)",
    "CREATE INDEX business_states_by_end ON business_states (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX business_states_by_incarnation ON business_states (incarnation)",
    """CREATE TABLE business_state_audit (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  session_id TEXT,
  incarnation TEXT,
  changes TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    ("CREATE INDEX business_state_audit_by_age ON business_state_audit (tenant_id, site_id, user_id, created_at, ref)"),
    "CREATE INDEX business_state_audit_by_end ON business_state_audit (keep_until) WHERE keep_until IS NOT NULL",
    (
        "CREATE INDEX business_state_audit_by_session_id "
        "ON business_state_audit (tenant_id, site_id, user_id, session_id, created_at, ref)"
    ),
    "CREATE INDEX business_state_audit_by_incarnation ON business_state_audit (incarnation)",
)

_KEYS = (
    """CREATE TABLE api_keys (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  key_id TEXT,
  name TEXT,
  digest TEXT,
  for_tenant TEXT,
  for_sites TEXT,
  for_user TEXT,
  rights TEXT,
  expires_at INTEGER,
  revoked_at INTEGER,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, key_id)
) STRICT""",
    "CREATE INDEX api_keys_by_age ON api_keys (tenant_id, site_id, created_at, key_id)",
    "CREATE INDEX api_keys_by_end ON api_keys (keep_until) WHERE keep_until IS NOT NULL",
)

_BLOCKS = (
    "CREATE TABLE rows (old INTEGER PRIMARY KEY, new INTEGER NOT NULL) STRICT",
    """INSERT INTO rows SELECT entry, (partition << 32) + row_number() OVER (PARTITION BY partition ORDER BY entry)
  FROM search_entries""",
    """CREATE TABLE blocks (
  partition INTEGER NOT NULL,
  term TEXT NOT NULL,
  block INTEGER NOT NULL,
  postings BLOB NOT NULL,
  PRIMARY KEY (partition, term, block)
) STRICT, WITHOUT ROWID""",
    """INSERT INTO blocks SELECT p.partition, p.term, (r.new & 4294967295) >> 7,
  unhex(group_concat(printf('%02X%06X%08X', r.new & 127, p.count, p.length), ''))
  FROM search_postings p CROSS JOIN rows r ON r.old = p.entry GROUP BY 1, 2, 3""",
    "DROP TABLE search_postings",
    "ALTER TABLE blocks RENAME TO search_postings",
    *(
        f"UPDATE {table} SET entry = (SELECT new FROM rows WHERE old = {table}.entry)"
        for table in ("search_entries", "search_vectors", "search_fields")
    ),
    "DROP TABLE rows",
)

_ERASURES = (
    "ALTER TABLE conversations ADD COLUMN began_at INTEGER",
    """CREATE TABLE erasures (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  erasure_id TEXT,
  subject TEXT,
  state TEXT,
  for_tenant TEXT,
  for_site TEXT,
  for_user TEXT,
  started_at INTEGER,
  finished_at INTEGER,
  counted INTEGER,
  incarnations TEXT,
  removed TEXT,
  receipt TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, erasure_id)
) STRICT""",
    "CREATE INDEX erasures_by_age ON erasures (tenant_id, site_id, created_at, erasure_id)",
    "CREATE INDEX erasures_by_end ON erasures (keep_until) WHERE keep_until IS NOT NULL",
    "CREATE INDEX erasures_by_subject ON erasures (tenant_id, site_id, subject, created_at, erasure_id)",
    "CREATE INDEX erasures_by_state ON erasures (tenant_id, site_id, state, created_at, erasure_id)",
    """CREATE TABLE audit_entries (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  number INTEGER,
  at INTEGER,
  act TEXT,
  actor TEXT,
  details TEXT,
  previous TEXT,
  digest TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    "CREATE INDEX audit_entries_by_age ON audit_entries (tenant_id, site_id, created_at, ref)",
    "CREATE INDEX audit_entries_by_end ON audit_entries (keep_until) WHERE keep_until IS NOT NULL",
)

_VERSIONS = (
    "ALTER TABLE evidence ADD COLUMN effective_date TEXT",
    "ALTER TABLE evidence ADD COLUMN supersedes TEXT",
    "UPDATE evidence SET effective_date = '', supersedes = ''",
    "CREATE INDEX evidence_by_supersedes ON evidence (tenant_id, site_id, supersedes, created_at, evidence_id)",
)

_SEALED = (
    *(
        f"ALTER TABLE {table} ADD COLUMN sealed TEXT DEFAULT ''"
        for table in (
            "conversations",
            "preferences",
            "idempotent_turns",
            "traces",
            "conversation_summaries",
            "business_states",
            "business_state_audit",
        )
    ),
    """CREATE TABLE data_keys (
  row INTEGER PRIMARY KEY,
  tenant_id TEXT NOT NULL,
  site_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  ref TEXT,
  key_id TEXT,
  master_id TEXT,
  wrapped TEXT,
  for_tenant TEXT,
  for_site TEXT,
  for_user TEXT,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  keep_until INTEGER,
  UNIQUE (tenant_id, site_id, ref)
) STRICT""",
    "CREATE INDEX data_keys_by_age ON data_keys (tenant_id, site_id, created_at, ref)",
    "CREATE INDEX data_keys_by_end ON data_keys (keep_until) WHERE keep_until IS NOT NULL",
)

_KEY_RATES = ("ALTER TABLE api_keys ADD COLUMN rate_limit TEXT DEFAULT ''",)

UPGRADES: Mapping[int, Sequence[str]] = {
    2: _USAGE,
    3: _INCARNATIONS,
    4: _MARKERS,
    5: _SEARCH,
    6: _DERIVED,
    7: _SUMMARIES,
    8: _STATES,
    9: _KEYS,
    10: _BLOCKS,
    11: _ERASURES,
    12: _VERSIONS,
    13: _SEALED,
    14: _KEY_RATES,
}
"""Version → upgrade from the version before; frozen SQL, independent of later record declarations."""


def prepare_schema(path: Path, on_step: OnStep) -> None:
    """Create the tables in a new file, upgrade those of an older version; refuse other files and newer versions.

    Every step is one transaction under the write lock, so of processes that start together only one does it.

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
    """The schema version of a Wenmai file.

    Raises:
        StoreTooNew: a newer Wenmai wrote it.
        StoreUnavailable: it is another program's database.
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
    """Run the next step, unless another process has done it; False if the tables are current."""
    began = monotonic()
    connection.execute("BEGIN IMMEDIATE")
    found = schema_in(connection, path).found
    if found == SCHEMA_VERSION:
        connection.execute("COMMIT")
        return False
    reached = found + 1 if found else SCHEMA_VERSION
    step = Step("sqlite", found, reached, *_row_counts(connection, found))
    on_step(step)
    for statement in UPGRADES[reached] if found else schema_ddl():
        connection.execute(statement)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", reached)
    connection.execute("COMMIT")
    on_step(step._replace(seconds=monotonic() - began))
    return True


def _check_writable(connection: apsw.Connection) -> None:
    """Rewrite the current version, so that a full disk is reported now and not at the first message."""
    connection.execute("BEGIN IMMEDIATE")
    connection.pragma("user_version", connection.pragma("user_version"))
    connection.execute("COMMIT")


def _row_counts(connection: apsw.Connection, found: int) -> tuple[int, int]:
    """The number of sessions and messages."""
    if not found:
        return 0, 0
    rows = fetch(connection, "SELECT (SELECT count(*) FROM conversations), (SELECT count(*) FROM messages)")
    return rows[0][0], rows[0][1]
