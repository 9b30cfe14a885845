"""The front of the memory: sessions as objects, for those who embed Wenmai in a program of their own."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from wenmai.clock import Clock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound
from wenmai.memory.context import Context, ContextBuilder
from wenmai.memory.first_question import FirstQuestion
from wenmai.memory.idempotency import IdempotentTurns
from wenmai.memory.ids import checked_id
from wenmai.memory.preferences import PreferenceBook, PreferenceChange, SessionPreferences
from wenmai.memory.sessions import OpenedSession, Sessions
from wenmai.memory.transcript import MessageInput, Transcript
from wenmai.memory.turns import TurnGate
from wenmai.memory.usage import UsageLedger
from wenmai.memory.window import Window, WindowLimits
from wenmai.scope import Scope
from wenmai.stores.base import Documents, Logs, Store
from wenmai.stores.records import Message, Session
from wenmai.stores.registry import open_stores
from wenmai.text.tokens import TokenCounter, estimate_tokens

ASSISTANT = "assistant"
"""The persona of those who need only one."""


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How long and how much is remembered.

    Attributes:
        session_lifetime: without activity, before a session is not continued any more.
        window: what enters the window by default.
        history_cap: messages; no window reaches further back.
        language: of those who have not said or shown another.
    """

    session_lifetime: timedelta = timedelta(days=30)
    window: WindowLimits = WindowLimits()
    history_cap: int = 500
    language: str = "zh"


class Memory:
    """The parts of the memory over one store.

    Attributes:
        sessions, transcript, preferences, contexts, turns, idempotency, usage: the parts, for those who need one alone.
        policy: how long and how much is remembered.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        *,
        clock: Clock = system_clock,
        policy: MemoryPolicy | None = None,
        count_tokens: TokenCounter = estimate_tokens,
    ) -> None:
        self.policy = policy or MemoryPolicy()
        self.sessions = Sessions(documents, logs, clock, lifetime=self.policy.session_lifetime)
        self.transcript = Transcript(logs, history_cap=self.policy.history_cap, count_tokens=count_tokens)
        self.preferences = PreferenceBook(documents, default_language=self.policy.language)
        self.contexts = ContextBuilder(self.transcript, self.preferences, self.policy.window, count_tokens)
        self.turns = TurnGate(documents, clock)
        self.idempotency = IdempotentTurns(documents, clock)
        self.usage = UsageLedger(documents, self.sessions, clock)

    async def session(
        self,
        session_id: str | None = None,
        *,
        scope: Scope | None = None,
        npc_id: str = ASSISTANT,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> "SessionMemory":
        """Continue the session of that id, or begin one with this title and metadata; see :meth:`Sessions.open`."""
        checked_id("npc_id", npc_id)
        scope = scope or Scope()
        opened = await self.sessions.open(scope, session_id, title=title, metadata=metadata)
        return SessionMemory(self, scope, opened, npc_id)

    async def find(
        self, session_id: str, *, scope: Scope | None = None, npc_id: str = ASSISTANT
    ) -> "SessionMemory | None":
        """The session of that id, expired or not; None if it is absent or foreign. Nothing is created."""
        checked_id("npc_id", npc_id)
        scope = scope or Scope()
        try:
            stored = await self.sessions.get(scope, session_id)
        except SessionNotFound:
            return None
        return SessionMemory(self, scope, OpenedSession(stored, created=False), npc_id)


class SessionMemory:
    """One session, seen through one persona's thread.

    Attributes:
        session_id: differs from the id asked for if that one was expired or somebody else's.
        created: True if the session is new.
    """

    def __init__(self, memory: Memory, scope: Scope, opened: OpenedSession, npc_id: str) -> None:
        self._memory = memory
        self._scope = scope
        self._thread = opened.thread(npc_id)
        self.session_id = opened.session_id
        self.created = opened.created
        self._first_question = FirstQuestion(memory.sessions, scope, opened.stored.record)

    def with_persona(self, npc_id: str) -> "SessionMemory":
        """The same session through another persona's thread."""
        other = object.__new__(SessionMemory)
        other.__dict__.update(self.__dict__)
        other._thread = self._thread._replace(npc_id=checked_id("npc_id", npc_id))
        return other

    async def append(self, messages: Sequence[MessageInput]) -> list[Message]:
        """Append the messages durably, all or none, in this order; what is stored of each.

        A ``user`` message begins the next turn. A message whose ``id`` is there already changes nothing. The first
        ``user`` message of the session becomes its ``first_question``, and its title unless it has one.

        Raises:
            InvalidInput: a message is not allowed.
            SessionNotFound: the session was deleted meanwhile.
            SessionExpired: nothing happened in it for its whole lifetime.
        """
        appended, _ = await self._memory.transcript.append(self._scope, self._thread, messages)
        await self._first_question.note(appended.messages)
        return appended.messages

    async def append_and_window(
        self, messages: Sequence[MessageInput], limits: WindowLimits | None = None
    ) -> tuple[list[Message], Window]:
        """:meth:`append` and :meth:`window` in one step of the store."""
        limits = limits or self._memory.policy.window
        appended, window = await self._memory.transcript.append(self._scope, self._thread, messages, window=limits)
        assert window is not None  # noqa: S101 — limits were given
        await self._first_question.note(appended.messages)
        return appended.messages, window

    async def window(self, limits: WindowLimits | None = None) -> Window:
        """The newest completed turns that fit, in the order of the talk."""
        return await self._memory.transcript.window(self._scope, self._thread, limits or self._memory.policy.window)

    async def messages(self, limit: int = 50, *, before: int | None = None) -> list[Message]:
        """The newest messages, ascending, also unfinished ones; ``before`` is a ``seq``."""
        return await self._memory.transcript.latest(self._scope, self._thread, limit, before=before)

    def history(self) -> AsyncIterator[Message]:
        """Every message of the thread, ascending."""
        return self._memory.transcript.read_all(self._scope, self._thread)

    async def context(self, query: str, *, budget_tokens: int | None = None) -> Context:
        """What to tell a model before it answers ``query``; see :class:`Context`."""
        return await self._memory.contexts.build(self._scope, self._thread, query, budget_tokens=budget_tokens)

    async def preferences(self) -> SessionPreferences:
        """How the visitor likes to be answered."""
        return await self._memory.preferences.get(self._scope, self.session_id)

    async def prefer(self, **changes: Any) -> SessionPreferences:
        """Set preferences; keywords are the fields of :class:`PreferenceChange`."""
        return await self._memory.preferences.set(
            self._scope, self.session_id, PreferenceChange(**changes), incarnation=self._thread.incarnation or ""
        )

    async def record(self) -> Session:
        """The session's record as it is stored now."""
        return (await self._memory.sessions.get(self._scope, self.session_id)).record

    async def rename(self, title: str) -> None:
        """Give the session a title; final."""
        await self._memory.sessions.rename(self._scope, self.session_id, title, incarnation=self._thread.incarnation)

    async def clear(self) -> int:
        """Remove the messages of this persona's thread, and its traces; how many messages there were.

        The session stays, with the threads of others; the next message begins turn 1 again.

        Raises:
            SessionNotFound: the session was deleted meanwhile.
        """
        session_id, npc_id, incarnation = self._thread
        return await self._memory.sessions.forget_persona(self._scope, session_id, npc_id, incarnation=incarnation)

    async def truncate(self, last_seq: int) -> int:
        """Remove the messages of this persona's thread after the one numbered ``last_seq``; how many there were.

        0 removes all of them. The next message goes on behind what is left.
        """
        return await self._memory.transcript.truncate(self._scope, self._thread, last_seq)

    async def delete(self) -> bool:
        """Remove the session with all its threads; True if there was one."""
        return await self._memory.sessions.delete(self._scope, self.session_id, incarnation=self._thread.incarnation)


@asynccontextmanager
async def open_memory(
    url: str = "sqlite:///wenmai.db",
    *,
    hot: str = "",
    policy: MemoryPolicy | None = None,
    clock: Clock = system_clock,
    count_tokens: TokenCounter = estimate_tokens,
) -> AsyncIterator[Memory]:
    """Open the memory kept at ``url`` for as long as the context lasts.

    Never open the file of a ``sqlite:`` URL with the standard ``sqlite3`` module in the same process meanwhile: that
    deletes its log, and all further work is refused. :func:`wenmai.stores.sqlite.query_readonly` reads it safely.

    Args:
        url: of the store, which alone acknowledges.
        hot: of a Redis server in front of it, which may vanish at any moment; "" for none.
        policy: how long and how much is remembered.
        clock: tells the time that is stored.
        count_tokens: of a text.

    Raises:
        UnsupportedUrl: no backend of that scheme.
        InvalidInput: the backend keeps no documents and logs.
        StoreError: the store cannot be opened.
    """
    async with open_stores(url, hot, clock=clock) as (store, _):
        documents, logs = required(store, url)
        yield Memory(documents, logs, clock=clock, policy=policy, count_tokens=count_tokens)


def required(store: Store, url: str) -> tuple[Documents, Logs]:
    """The contracts that the memory is written over.

    Raises:
        InvalidInput: the store does not offer them.
    """
    if store.documents is None or store.logs is None:
        raise InvalidInput("store", url, "a store of documents and logs")
    return store.documents, store.logs
