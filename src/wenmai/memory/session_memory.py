"""A session as an object of the library API."""

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from wenmai.memory.context import Context
from wenmai.memory.first_question import FirstQuestion
from wenmai.memory.history import MessagePage, SessionOverview
from wenmai.memory.ids import checked_id
from wenmai.memory.preferences import PreferenceChange, SessionPreferences
from wenmai.memory.recalled_items import RecalledItem
from wenmai.memory.sessions import OpenedSession
from wenmai.memory.state import StateUpdate
from wenmai.memory.state_correction import StateCorrection
from wenmai.memory.summaries import ThreadSummary
from wenmai.memory.transcript import MessageInput
from wenmai.memory.window import Window, WindowLimits
from wenmai.scope import Scope
from wenmai.stores.records import BusinessState, Message, Session, StateChange

if TYPE_CHECKING:
    from wenmai.memory.library import Memory


class SessionMemory:
    """A session, with the thread of one persona.

    Attributes:
        session_id: differs from the requested id if that session was expired or another user's.
        created: True if the session is new.
    """

    def __init__(self, memory: "Memory", scope: Scope, opened: OpenedSession, persona_id: str) -> None:
        self._memory = memory
        self._scope = scope
        self._thread = opened.thread(persona_id)
        self.session_id: str = opened.session_id
        self.created: bool = opened.created
        self._first_question = FirstQuestion(memory.sessions, scope, opened.stored.record)

    def with_persona(self, persona_id: str) -> "SessionMemory":
        """The same session, with another persona's thread."""
        other = object.__new__(SessionMemory)
        other.__dict__.update(self.__dict__)
        other._thread = self._thread._replace(persona_id=checked_id("persona_id", persona_id))
        return other

    async def append(self, messages: Sequence[MessageInput]) -> list[Message]:
        """Append the messages durably, all or none, in this order; returns them as stored.

        A ``user`` message starts the next turn. A message whose ``id`` exists already changes nothing. The first
        ``user`` message of the session becomes its ``first_question``, and its title unless it has one.

        Raises:
            InvalidInput: a message is not allowed.
            SessionNotFound: the session was deleted meanwhile.
            SessionExpired: it had no activity for its whole lifetime.
        """
        appended, _ = await self._memory.transcript.append(self._scope, self._thread, messages)
        await self._first_question.record(appended.messages)
        return appended.messages

    async def append_and_window(
        self, messages: Sequence[MessageInput], limits: WindowLimits | None = None
    ) -> tuple[list[Message], Window]:
        """:meth:`append` and :meth:`window` in one step of the store."""
        limits = limits or self._memory.policy.window
        appended, window = await self._memory.transcript.append(self._scope, self._thread, messages, window=limits)
        assert window is not None  # noqa: S101 — limits were given
        await self._first_question.record(appended.messages)
        return appended.messages, window

    async def window(self, limits: WindowLimits | None = None) -> Window:
        """The newest completed turns that fit, in the order of the conversation."""
        return await self._memory.transcript.window(self._scope, self._thread, limits or self._memory.policy.window)

    async def messages(self, limit: int = 50, *, before: int | None = None) -> list[Message]:
        """The newest messages, ascending, including unfinished ones; ``before`` is a ``seq``."""
        return await self._memory.transcript.latest(self._scope, self._thread, limit, before=before)

    def history(self) -> AsyncIterator[Message]:
        """Every message of the thread, ascending."""
        return self._memory.transcript.read_all(self._scope, self._thread)

    async def page(self, limit: int = 50, *, before: str | None = None) -> MessagePage:
        """The newest messages of all personas, merged by time, ascending; ``before`` is the ``next`` of a page."""
        return await self._memory.history.page(
            self._scope, self.session_id, limit, before=before, incarnation=self._thread.incarnation
        )

    async def overview(self, limit: int = 10) -> SessionOverview:
        """The session with its preferences and the newest messages of all personas, merged by time."""
        return await self._memory.history.overview(
            self._scope, self.session_id, limit, incarnation=self._thread.incarnation
        )

    async def summary(self) -> ThreadSummary | None:
        """The rolling summary of this persona's thread; None while everything is in the window."""
        return await self._memory.summaries.get(self._scope, self._thread)

    async def context(self, query: str, *, budget_tokens: int | None = None, related_turns: bool = True) -> Context:
        """The context for a model that answers ``query``; see :class:`Context` and :meth:`ContextBuilder.build`."""
        return await self._memory.contexts.build(
            self._scope, self._thread, query, budget_tokens=budget_tokens, related_turns=related_turns
        )

    async def recall(self, query: str, **limits: Any) -> list[RecalledItem]:
        """What this persona's thread says about ``query``; see :meth:`wenmai.Memory.recall`."""
        thread = self._thread._asdict()
        if "session_id" in limits:  # another one, or all
            del thread["incarnation"]
        return await self._memory.recall(query, scope=self._scope, **thread | limits)

    async def preferences(self) -> SessionPreferences:
        """How the user likes to be answered."""
        return await self._memory.preferences.get(
            self._scope, self.session_id, incarnation=self._thread.incarnation or ""
        )

    async def prefer(self, **changes: Any) -> SessionPreferences:
        """Set preferences; keywords are the fields of :class:`PreferenceChange`."""
        return await self._memory.preferences.set(
            self._scope, self.session_id, PreferenceChange(**changes), incarnation=self._thread.incarnation or ""
        )

    async def state(self) -> BusinessState:
        """The business state: current customer and operations; empty if nothing was recognized yet."""
        return await self._memory.states.get(self._scope, self.session_id, incarnation=self._thread.incarnation or "")

    async def understand(self, query: str, *, turn_id: int | None = None) -> StateUpdate:
        """Recognize what a message says in the words of the business rules, and advance the state.

        Args:
            query: the message.
            turn_id: its turn, for the audit; a repeated turn changes nothing again.
        """
        return await self._memory.states.understand(
            self._scope,
            self.session_id,
            query,
            incarnation=self._thread.incarnation or "",
            turn="" if turn_id is None else f"{self._thread.persona_id}#{turn_id}",
        )

    async def correct_state(self, **values: Any) -> BusinessState:
        """Correct the business state; keywords are the fields of :class:`StateCorrection`."""
        return await self._memory.states.correct(
            self._scope, self.session_id, StateCorrection(**values), incarnation=self._thread.incarnation or ""
        )

    async def reset_state(self) -> BusinessState:
        """Forget customer and operations; the audit stays until the session is deleted."""
        return await self._memory.states.reset(self._scope, self.session_id, incarnation=self._thread.incarnation or "")

    async def state_changes(self, limit: int = 50, *, before: int | None = None) -> list[StateChange]:
        """The newest changes of the business state with their causes, ascending; ``before`` is a version."""
        return await self._memory.states.changes(
            self._scope, self.session_id, limit, before=before, incarnation=self._thread.incarnation or ""
        )

    async def record(self) -> Session:
        """The session's stored record."""
        return await self._memory.sessions.of_thread(self._scope, self._thread)

    async def rename(self, title: str) -> None:
        """Set the title; only another rename changes it."""
        await self._memory.sessions.rename(self._scope, self.session_id, title, incarnation=self._thread.incarnation)

    async def clear(self) -> int:
        """Delete this persona's thread and its traces; returns the number of messages.

        The session and the threads of other personas are kept; the next message starts again at turn 1.

        Raises:
            SessionNotFound: the session was deleted meanwhile.
        """
        session_id, persona_id, incarnation = self._thread
        return await self._memory.sessions.delete_thread(self._scope, session_id, persona_id, incarnation=incarnation)

    async def truncate(self, last_seq: int) -> int:
        """Delete the messages of this persona's thread after ``last_seq``; returns how many.

        0 deletes all of them. The next message follows the last one that is left.
        """
        return await self._memory.transcript.truncate(self._scope, self._thread, last_seq)

    async def delete(self) -> bool:
        """Delete the session with all its threads; True if it existed."""
        return await self._memory.sessions.delete(self._scope, self.session_id, incarnation=self._thread.incarnation)
