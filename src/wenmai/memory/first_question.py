"""A session's first question and rule-made title, for callers that append messages themselves."""

import logging
from collections.abc import Sequence

import msgspec

from wenmai.errors import NotFound, StoreError
from wenmai.memory.sessions import Sessions, title_from_question
from wenmai.scope import Scope
from wenmai.stores.records import Message, NewMessage, Session

_log = logging.getLogger(__name__)

FIRST_QUESTION_LIMIT = 4_000
"""Characters kept: session lists show it, and a pasted document is not a question."""


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
                lambda session: with_first_question(session, question),
                incarnation=self._incarnation,
            )
        except (NotFound, StoreError) as problem:
            _log.warning("the first question of %s was not stored: %s", self._session_id, problem)
        else:
            self._recorded = True


def first_question_of(messages: Sequence[Message | NewMessage]) -> str:
    """The first text of a user in the messages, stripped; empty if there is none."""
    texts = (message.content.strip() for message in messages if message.role == "user")
    return next((text[:FIRST_QUESTION_LIMIT] for text in texts if text), "")


def with_first_question(session: Session, question: str) -> Session:
    """The record with its first question and a title made of it; existing values are kept."""
    if session.first_question:
        return session
    named = (
        session
        if session.title_by
        else msgspec.structs.replace(session, title=title_from_question(question), title_by="rule")
    )
    return msgspec.structs.replace(named, first_question=question)
