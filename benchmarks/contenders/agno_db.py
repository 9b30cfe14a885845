"""agno's ``SqliteDb``: a row of JSON per run, through SQLAlchemy; its calls block the event loop."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.contenders import WINDOW, RoleAndContent, library
from benchmarks.contenders.floor import SYNCHRONOUS


class AgnoRuns:
    """A run holds the two messages of a turn; the window is five runs."""

    def __init__(self, db: Any) -> None:
        self._db = db
        self._run = library("agno.run.agent").RunOutput
        self._message = library("agno.models.message").Message
        self._session = library("agno.session").AgentSession
        self._agent = library("agno.db.base").SessionType.AGENT
        self._rows = library("agno.db.utils").build_run_rows_for_session

    async def fill(self, session: str, messages: Sequence[RoleAndContent]) -> None:
        """See :class:`benchmarks.contenders.Contender`; all at once, which ``SqliteDb`` does not offer."""
        filled = self._session(session_id=session, agent_id="bench", created_at=int(time.time()))
        self._db.upsert_session(filled)
        filled.runs = [self._make_run(messages[at : at + 2], session) for at in range(0, len(messages), 2)]
        table = self._db._get_table(table_type="runs", create_table_if_not_found=True)  # noqa: SLF001 — see above
        with self._db.db_engine.begin() as connection:
            connection.execute(table.insert(), self._rows(filled))

    async def turn(self, session: str, question: str, answer: str) -> list[str]:
        """See :class:`benchmarks.contenders.Contender`."""
        self._db.upsert_run(self._make_run([("user", question), ("assistant", answer)], session), session)
        found = self._db.get_session(session, self._agent, runs_limit=WINDOW // 2)
        return [message.content for message in found.get_messages(limit=WINDOW)]

    async def count(self, session: str) -> int:
        """See :class:`benchmarks.contenders.Contender`."""
        return len(self._db.get_session(session, self._agent).get_messages())

    async def durability(self) -> dict[str, str]:
        """See :class:`benchmarks.contenders.Contender`."""
        with self._db.db_engine.connect() as connection:
            mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar()
            synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar()
        return {"journal_mode": mode, "synchronous": SYNCHRONOUS[synchronous]}

    def _make_run(self, messages: Sequence[RoleAndContent], session: str) -> Any:
        told = [self._message(role=role, content=content) for role, content in messages]
        return self._run(run_id=uuid4().hex, agent_id="bench", session_id=session, messages=told)


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[AgnoRuns]:
    """The runs of one file."""
    db = library("agno.db.sqlite").SqliteDb(db_file=str(path))
    yield AgnoRuns(db)
    db.db_engine.dispose()
