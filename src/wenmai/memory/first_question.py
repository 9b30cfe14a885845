"""A session's first question and rule-made title.

Callers that append messages record them at once; a derived function finds what a crash has left out.
"""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from wenmai.errors import NotFound, StoreError
from wenmai.memory.derived import Progress, ThreadChange
from wenmai.memory.sessions import Sessions, title_from_question
from wenmai.scope import Scope
from wenmai.stores.contracts import Logs
from wenmai.stores.records import Message, NewMessage, Session
from wenmai.text.redact import redact

_log = logging.getLogger(__name__)

FIRST_QUESTION_LIMIT = 4_000
"""Characters kept: session lists show it, and a pasted document is not a question."""


SEARCHED_MESSAGES = 50
"""Messages of a thread among which its first question is searched for afterwards."""


class FirstQuestion:
    """Stores a session's first question, once.

    Args:
        sessions: used to change the session's record.
        scope: the owner of the session.
        session: its record, as last read.
    """

    def __init__(self, sessions: Sessions, scope: Scope, session: Session) -> None:
        self._sessions = sessions
        self._scope = scope
        self._session_id = session.session_id
        self._incarnation = session.incarnation
        self._recorded = bool(session.first_question)

    async def record(self, messages: Sequence[Message]) -> None:
        """Store the first question found in appended messages, unless the session has one.

        The messages are stored already, so a store error is logged here, and the next append retries.
        """
        question = "" if self._recorded else first_question_of(messages)
        if not question:
            return
        try:
            await self._sessions.change(
                self._scope,
                self._session_id,
                lambda session: with_first_question(session, question, final=self._sessions.rule_titles_final),
                incarnation=self._incarnation,
            )
        except (NotFound, StoreError) as problem:
            _log.warning("the first question of %s was not stored: %s", self._session_id, problem)
        else:
            self._recorded = True


def first_question_of(messages: Sequence[Message | NewMessage]) -> str:
    """The first text of a user in the messages, stripped; empty if there is none."""
    texts = (message.content.strip() for message in messages if message.role == "user")
    question = next(filter(None, texts), "")
    # A part of a private value would not be recognized when it is stored.
    return question if len(question) <= FIRST_QUESTION_LIMIT else redact(question)[:FIRST_QUESTION_LIMIT]


def with_first_question(session: Session, question: str, *, final: bool) -> Session:
    """The record with its first question and a title made of it, final or not; existing values are kept."""
    if session.first_question:
        return session
    changes: dict[str, Any] = {"first_question": question}
    if not session.title_by:
        changes |= rule_title(question, final=final)
    return msgspec.structs.replace(session, **changes)


def rule_title(question: str, *, final: bool) -> dict[str, Any]:
    """The fields of a title made by the rule; ``title_by`` is empty until it is final."""
    return {"title": title_from_question(question), "title_by": "rule" if final else ""}


class DerivedFirstQuestion:
    """Derives a session's first question and rule-made title from a thread; see :mod:`wenmai.memory.derived`."""

    name = "first_question"
    concurrency = 4
    of_session = False
    newest = 1

    def __init__(self, sessions: Sessions, logs: Logs) -> None:
        self._sessions = sessions
        self._logs = logs

    async def progress(self, change: ThreadChange) -> Progress:
        """Final once there is one."""
        session = await self._sessions.of_thread(change.scope, change.thread)
        if session.first_question:
            return Progress.FINAL
        return Progress.BEHIND if await self.find(change) else Progress.CURRENT

    async def derive(self, change: ThreadChange) -> Progress:
        """Record it."""
        question = await self.find(change)
        if not question:
            return Progress.CURRENT
        final = self._sessions.rule_titles_final
        await self._sessions.change(
            change.scope,
            change.thread.session_id,
            lambda session: with_first_question(session, question, final=final),
            incarnation=change.thread.incarnation,
        )
        return Progress.FINAL

    async def find(self, change: ThreadChange) -> str:
        """The first text of a user among the first messages of the thread; empty if there is none."""
        return first_question_of(await self._logs.read(change.scope, change.thread, limit=SEARCHED_MESSAGES))
