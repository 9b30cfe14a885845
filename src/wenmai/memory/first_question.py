"""The first question of a session, and the title that a rule makes of it, for those who append messages themselves."""

import logging
from collections.abc import Sequence

import msgspec

from wenmai.errors import NotFound, StoreError
from wenmai.memory.sessions import Sessions, title_from_question
from wenmai.scope import Scope
from wenmai.stores.records import Message, NewMessage, Session

_log = logging.getLogger(__name__)

FIRST_QUESTION_LIMIT = 4_000
"""Characters that are kept of it: a list of sessions shows it, and a pasted document is no question."""


class FirstQuestion:
    """Stores a session's first question, once.

    Args:
        sessions: where the session's record is changed.
        scope: the owner of the session.
        session: its record as it was read last.
    """

    def __init__(self, sessions: Sessions, scope: Scope, session: Session) -> None:
        self._sessions = sessions
        self._scope = scope
        self._session_id = session.session_id
        self._incarnation = session.incarnation
        self._known = bool(session.first_question)

    async def note(self, messages: Sequence[Message]) -> None:
        """Take the first question from messages that were appended, unless the session has one.

        The messages are stored already, so a store that fails now is logged, and the next append tries again.
        """
        question = "" if self._known else question_of(messages)
        if not question:
            return
        try:
            await self._sessions.change(
                self._scope,
                self._session_id,
                lambda session: asked(session, question),
                incarnation=self._incarnation,
            )
        except (NotFound, StoreError) as problem:
            _log.warning("the first question of %s was not stored: %s", self._session_id, problem)
        else:
            self._known = True


def question_of(messages: Sequence[Message | NewMessage]) -> str:
    """What the user says first in the messages, without surrounding white space; empty if nothing."""
    said = (message.content.strip() for message in messages if message.role == "user")
    return next((text[:FIRST_QUESTION_LIMIT] for text in said if text), "")


def asked(session: Session, question: str) -> Session:
    """The record with its first question, and with a title made of it; what it has already stays."""
    if session.first_question:
        return session
    named = (
        session
        if session.title_by
        else msgspec.structs.replace(session, title=title_from_question(question), title_by="rule")
    )
    return msgspec.structs.replace(named, first_question=question)
