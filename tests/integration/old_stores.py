"""Stores of schema version 1 with messages, created and read with SQL only.

The DDL in ``fixtures`` was dumped from stores that version 1 created. It never changes.
"""

import asyncio
import sqlite3
from collections.abc import Coroutine
from contextlib import closing
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol, TypeVar

import asyncpg

from wenmai.stores.records import Message

T = TypeVar("T")

FIXTURES = Path(__file__).parent / "fixtures"
MESSAGES = 100
"""Messages in each session's only thread."""

BEGINNING = datetime(2025, 2, 28, 23, 59, tzinfo=UTC)
END = datetime(2100, 1, 1, tzinfo=UTC)

_CONTENTS = (
    """SELECT tenant_id, site_id, user_id, session_id, expires_at, lifetime_seconds, title, title_by, first_question,
    context, metadata, total_tokens_used, total_cost_usd, version, created_at, updated_at, keep_until
    FROM conversations ORDER BY session_id""",
    "SELECT thread, npc_id, label FROM threads ORDER BY thread",
    "SELECT * FROM messages ORDER BY thread, seq",
)


_SQLITE_FILL = (
    """WITH RECURSIVE s(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < :sessions)
    INSERT INTO conversations SELECT n, 'default', 'default', 'anonymous', 'session-' || n, :end, 86400, '家训',
      'user', '孝', '{}', '{}', 0, 0.0, 1, :beginning + n, :beginning + n, NULL FROM s""",
    """INSERT INTO threads SELECT row, tenant_id, site_id, session_id, 'elder', user_id, 'l' || row
    FROM conversations""",
    """WITH RECURSIVE m(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM m WHERE n < :messages)
    INSERT INTO messages SELECT thread, n, (n + 1) / 2, iif(n % 2, 'user', 'assistant'),
      '第' || n || '句：孝悌为本，' || char(10) || '耕读传家 ''as said'' in session ' || thread || '.',
      :beginning + n * 1000000, n, 1, iif(n % 10 = 0, 'given-' || n, NULL), NULL, NULL, NULL,
      iif(n % 7 = 0, '{"部":[' || n || ']}', NULL) FROM threads, m""",
)

_POSTGRESQL_FILL = (
    """INSERT INTO conversations OVERRIDING SYSTEM VALUE SELECT n, 'default', 'default', 'anonymous', 'session-' || n,
      $3::timestamptz, 86400, '家训', 'user', '孝', '{}', '{}', 0, 0, 1, moment, moment, NULL
    FROM (SELECT n, $2::timestamptz + n * interval '1 microsecond' AS moment FROM generate_series(1, $1::int) n) s""",
    "INSERT INTO threads OVERRIDING SYSTEM VALUE SELECT row_id, row_id, 'elder', 'l' || row_id FROM conversations",
    """INSERT INTO messages SELECT thread, n, (n + 1) / 2, CASE WHEN n % 2 = 1 THEN 'user' ELSE 'assistant' END,
      '第' || n || '句：孝悌为本，' || chr(10) || '耕读传家 ''as said'' in session ' || thread || '.',
      $2::timestamptz + n * interval '1 second', n, true, CASE WHEN n % 10 = 0 THEN 'given-' || n END,
      NULL, NULL, NULL, CASE WHEN n % 7 = 0 THEN '{"部":[' || n || ']}' END::json
    FROM threads, generate_series(1, $1::int) n""",
)


_BOUND = (
    """INSERT INTO preferences (tenant_id, site_id, user_id, session_id, verbosity, tone, language, interest_tags,
      chosen, sources, version, created_at, updated_at)
    VALUES ('default', 'default', 'anonymous', '{session}', 'brief', 'casual', 'zh', '["祠堂"]', '[]', '{{}}', 3, {now},
      {now})""",
    """INSERT INTO turn_leases (tenant_id, site_id, user_id, thread, holder, expires_at, version, created_at,
      updated_at)
    VALUES ('default', 'default', 'anonymous', '{session}/elder', 'h', {now}, 1, {now}, {now})""",
    """INSERT INTO idempotent_turns (tenant_id, site_id, user_id, idempotency_key, fingerprint, session_id, holder,
      attempt_expires_at, response, version, created_at, updated_at)
    SELECT 'default', 'default', 'anonymous', 'key-{session}' || a.name, 'f', '{session}', 'h', {now}, a.response, 1,
      {now}, {now} FROM (SELECT '' AS name, {answered} AS response UNION ALL SELECT '-open', {open}) a""",
    """INSERT INTO traces (tenant_id, site_id, user_id, trace_id, started_at, completed_at, session_id, npc_id, turn_id,
      request_input, tool_calls, intent, evidence_ids, policy_mode, policy_reason, blocks, answer, model, prompt_tokens,
      completion_tokens, cost_usd, latency_ms, degraded, details, version, created_at, updated_at)
    VALUES ('default', 'default', 'anonymous', 'trace-{session}', {now}, {now}, '{session}', 'elder', 1, '{{}}', '[]',
      '', '[]', 'normal', '', '[]', '孝悌', '', 1, 2, 0.5, 1.5, '[]', '{{}}', 1, {now}, {now})""",
)
"""A record of each bound type, and an idempotent turn whose first attempt has not ended."""


def message(session: int, seq: int) -> Message:
    """Message number ``seq`` of session number ``session``, as written into the old store."""
    return Message(
        id=f"given-{seq}" if seq % 10 == 0 else f"msg-l{session}-{seq}",
        seq=seq,
        turn_id=(seq + 1) // 2,
        persona_id="elder",
        role="user" if seq % 2 else "assistant",
        content=f"第{seq}句：孝悌为本，\n耕读传家 'as said' in session {session}.",
        timestamp=BEGINNING + timedelta(seconds=seq),
        tokens=seq,
        metadata={"部": [seq]} if seq % 7 == 0 else {},
    )


class OldStore(Protocol):
    """A store of version 1.

    Attributes:
        url: of the store.
        newer: SQL that sets its version to 99.
    """

    url: str
    newer: str

    def fill(self, sessions: int) -> None:
        """Write this many sessions of :data:`MESSAGES` messages."""

    def add_bound_records(self, session_id: str) -> None:
        """Write a record of each type bound to the session, whether it exists or not."""

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; changes are committed."""

    def version(self) -> int:
        """Its schema version."""

    def tables(self) -> list[str]:
        """The names of its tables and indexes."""


def contents_digest(store: OldStore) -> str:
    """A digest of every value of every session, thread and message."""
    digest = sha256()
    for sql in _CONTENTS:
        digest.update(repr(store.rows(sql)).encode())
    return digest.hexdigest()


class OldSqlite:
    """A file of version 1."""

    newer = "PRAGMA user_version = 99"

    def __init__(self, path: Path) -> None:
        self.url = f"sqlite:///{path}"
        self._path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript((FIXTURES / "sqlite_version_1.sql").read_text(encoding="utf-8"))

    def fill(self, sessions: int) -> None:
        """See :class:`OldStore`."""
        beginning, end = (int(moment.timestamp() * 1_000_000) for moment in (BEGINNING, END))
        given = {"sessions": sessions, "messages": MESSAGES, "beginning": beginning, "end": end}
        with closing(sqlite3.connect(self._path)) as connection, connection:
            for sql in _SQLITE_FILL:
                connection.execute(sql, given)

    def add_bound_records(self, session_id: str) -> None:
        """See :class:`OldStore`."""
        now, answered = int(BEGINNING.timestamp() * 1_000_000), """'{"answer":"孝"}'"""
        for sql in _BOUND:
            self.rows(sql.format(session=session_id, now=now, answered=answered, open="'null'"))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """See :class:`OldStore`."""
        with closing(sqlite3.connect(self._path)) as connection, connection:
            return connection.execute(sql).fetchall()

    def version(self) -> int:
        """See :class:`OldStore`."""
        return int(self.rows("PRAGMA user_version")[0][0])

    def tables(self) -> list[str]:
        """See :class:`OldStore`."""
        return [name for (name,) in self.rows("SELECT name FROM sqlite_schema ORDER BY 1")]


class OldPostgresql:
    """A database of version 1."""

    newer = "UPDATE wenmai_version SET version_num = '0099'"

    def __init__(self, url: str) -> None:
        self.url = url
        script = (FIXTURES / "postgresql_version_1.sql").read_text(encoding="utf-8")
        _run(self._execute(script))

    def fill(self, sessions: int) -> None:
        """See :class:`OldStore`."""
        for sql, given in zip(_POSTGRESQL_FILL, [(sessions, BEGINNING, END), (), (MESSAGES, BEGINNING)], strict=True):
            _run(self._fetch(sql, *given))

    def add_bound_records(self, session_id: str) -> None:
        """See :class:`OldStore`."""
        now, answered = f"'{BEGINNING}'::timestamptz", """'{"answer":"孝"}'::json"""
        for sql in _BOUND:
            self.rows(sql.format(session=session_id, now=now, answered=answered, open="'null'::json"))

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """See :class:`OldStore`."""
        return _run(self._fetch(sql))

    def version(self) -> int:
        """See :class:`OldStore`."""
        return int(self.rows("SELECT version_num FROM wenmai_version")[0][0])

    def tables(self) -> list[str]:
        """See :class:`OldStore`."""
        own = "relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')"
        return [name for (name,) in self.rows(f"SELECT relname FROM pg_class WHERE {own} ORDER BY 1")]  # noqa: S608 — own

    async def _execute(self, script: str) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(script)
        await connection.close()

    async def _fetch(self, sql: str, *given: Any) -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(self.url)
        rows = [tuple(row) for row in await connection.fetch(sql, *given)]
        await connection.close()
        return rows


def _run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
