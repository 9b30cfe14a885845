"""The blocking API of the memory, without ``async``, for scripts and notebooks.

>>> from wenmai import blocking
>>> with blocking.open("memory://") as memory:
...     session = memory.session("visit-1")
...     _ = session.append([{"role": "user", "content": "你好"}])
...     [message.content for message in session.window().messages]
['你好']

Each method runs the method of the same name of :class:`~wenmai.memory.library.Memory` or
:class:`~wenmai.memory.session_memory.SessionMemory` on an event loop in a separate thread and waits for it; arguments,
results and errors are the same. All methods are thread-safe.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from wenmai.clock import Clock, system_clock
from wenmai.errors import StoreUnavailable
from wenmai.memory.context import Context
from wenmai.memory.history import ASSISTANT, MessagePage, SessionOverview
from wenmai.memory.library import Memory, MemoryPolicy, open_memory
from wenmai.memory.preferences import SessionPreferences
from wenmai.memory.recalled_items import RecalledItem
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.state import StateUpdate
from wenmai.memory.summaries import ThreadSummary
from wenmai.memory.transcript import MessageInput
from wenmai.memory.window import Window, WindowLimits
from wenmai.scope import Scope
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.opening import StorePolicy
from wenmai.stores.records import BusinessState, Message, Session, StateChange
from wenmai.stores.structs import Page
from wenmai.text.tokens import TokenCounter, estimate_tokens

T = TypeVar("T")


class BlockingMemory:
    """See :class:`~wenmai.memory.library.Memory`."""

    def __init__(self, memory: Memory, loop: "_LoopThread") -> None:
        self._memory = memory
        self._loop = loop

    def session(
        self,
        session_id: str | None = None,
        *,
        scope: Scope | None = None,
        persona_id: str = ASSISTANT,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> "BlockingSession":
        """Continue the session of that id, or create one with this title and metadata."""
        opening = self._memory.session(session_id, scope=scope, persona_id=persona_id, title=title, metadata=metadata)
        return BlockingSession(self._loop.wait_for(opening), self._loop)

    def find(
        self, session_id: str, *, scope: Scope | None = None, persona_id: str = ASSISTANT
    ) -> "BlockingSession | None":
        """The session of that id, expired or not; None if it is absent or foreign. Nothing is created."""
        found = self._loop.wait_for(self._memory.find(session_id, scope=scope, persona_id=persona_id))
        return None if found is None else BlockingSession(found, self._loop)

    def sessions(self, *, scope: Scope | None = None, limit: int = 20, cursor: str | None = None) -> Page[Session]:
        """The user's sessions, newest first, including expired ones."""
        listing = self._memory.sessions.list(scope or Scope(), limit=limit, cursor=cursor)
        return self._loop.wait_for(listing)

    def delete(self, session_id: str, *, scope: Scope | None = None) -> bool:
        """Delete the session with all its threads; True if it existed."""
        return self._loop.wait_for(self._memory.sessions.delete(scope or Scope(), session_id))

    def recall(self, query: str, *, scope: Scope | None = None, **limits: Any) -> list[RecalledItem]:
        """What the user's sessions say about ``query``, best first; see :meth:`Memory.recall`."""
        return self._loop.wait_for(self._memory.recall(query, scope=scope, **limits))


class BlockingSession:
    """See :class:`~wenmai.memory.session_memory.SessionMemory`."""

    def __init__(self, session: SessionMemory, loop: "_LoopThread") -> None:
        self._session = session
        self._loop = loop

    @property
    def session_id(self) -> str:
        """Differs from the requested id if that session was expired or another user's."""
        return self._session.session_id

    @property
    def created(self) -> bool:
        """True if the session is new."""
        return self._session.created

    def with_persona(self, persona_id: str) -> "BlockingSession":
        """The same session, with another persona's thread."""
        return BlockingSession(self._session.with_persona(persona_id), self._loop)

    def append(self, messages: Sequence[MessageInput]) -> list[Message]:
        """Append the messages durably, all or none; returns them as stored."""
        return self._loop.wait_for(self._session.append(messages))

    def append_and_window(
        self, messages: Sequence[MessageInput], limits: WindowLimits | None = None
    ) -> tuple[list[Message], Window]:
        """:meth:`append` and :meth:`window` in one step of the store."""
        return self._loop.wait_for(self._session.append_and_window(messages, limits))

    def window(self, limits: WindowLimits | None = None) -> Window:
        """The newest completed turns that fit, in the order of the conversation."""
        return self._loop.wait_for(self._session.window(limits))

    def messages(self, limit: int = 50, *, before: int | None = None) -> list[Message]:
        """The newest messages, ascending, including unfinished ones; ``before`` is a ``seq``."""
        return self._loop.wait_for(self._session.messages(limit, before=before))

    def history(self) -> Iterator[Message]:
        """Every message of the thread, ascending, read in pages."""
        messages = self._session.history()
        while (message := self._loop.wait_for(_next(messages))) is not None:
            yield message

    def page(self, limit: int = 50, *, before: str | None = None) -> MessagePage:
        """See :meth:`SessionMemory.page`."""
        return self._loop.wait_for(self._session.page(limit, before=before))

    def overview(self, limit: int = 10) -> SessionOverview:
        """See :meth:`SessionMemory.overview`."""
        return self._loop.wait_for(self._session.overview(limit))

    def summary(self) -> ThreadSummary | None:
        """The rolling summary of this persona's thread; None while everything is in the window."""
        return self._loop.wait_for(self._session.summary())

    def context(self, query: str, *, budget_tokens: int | None = None, related_turns: bool = True) -> Context:
        """The context for a model that answers ``query``."""
        return self._loop.wait_for(
            self._session.context(query, budget_tokens=budget_tokens, related_turns=related_turns)
        )

    def recall(self, query: str, **limits: Any) -> list[RecalledItem]:
        """What this persona's thread says about ``query``; see :meth:`Memory.recall`."""
        return self._loop.wait_for(self._session.recall(query, **limits))

    def preferences(self) -> SessionPreferences:
        """How the user likes to be answered."""
        return self._loop.wait_for(self._session.preferences())

    def prefer(
        self,
        *,
        verbosity: str | None = None,
        tone: str | None = None,
        language: str | None = None,
        interest_tags: Sequence[str] | None = None,
        add_interest_tags: Sequence[str] = (),
        remove_interest_tags: Sequence[str] = (),
        clear: Sequence[str] = (),
    ) -> SessionPreferences:
        """Set preferences; see :class:`~wenmai.memory.preferences.PreferenceChange`."""
        preferring = self._session.prefer(
            verbosity=verbosity,
            tone=tone,
            language=language,
            interest_tags=interest_tags,
            add_interest_tags=add_interest_tags,
            remove_interest_tags=remove_interest_tags,
            clear=clear,
        )
        return self._loop.wait_for(preferring)

    def state(self) -> BusinessState:
        """The business state: current customer and operations; empty if nothing was recognized yet."""
        return self._loop.wait_for(self._session.state())

    def understand(self, query: str, *, turn_id: int | None = None) -> StateUpdate:
        """Recognize what a message says in the words of the business rules, and advance the state."""
        return self._loop.wait_for(self._session.understand(query, turn_id=turn_id))

    def correct_state(self, **values: Any) -> BusinessState:
        """Correct the business state; keywords are the fields of ``StateCorrection``."""
        return self._loop.wait_for(self._session.correct_state(**values))

    def reset_state(self) -> BusinessState:
        """Forget customer and operations; the audit stays until the session is deleted."""
        return self._loop.wait_for(self._session.reset_state())

    def state_changes(self, limit: int = 50, *, before: int | None = None) -> list[StateChange]:
        """The newest changes of the business state with their causes, ascending; ``before`` is a version."""
        return self._loop.wait_for(self._session.state_changes(limit, before=before))

    def record(self) -> Session:
        """The session's stored record."""
        return self._loop.wait_for(self._session.record())

    def rename(self, title: str) -> None:
        """Set the title; only another rename changes it."""
        self._loop.wait_for(self._session.rename(title))

    def clear(self) -> int:
        """Delete this persona's thread and its traces; returns the number of messages."""
        return self._loop.wait_for(self._session.clear())

    def truncate(self, last_seq: int) -> int:
        """Delete the messages of this persona's thread after ``last_seq``; returns how many."""
        return self._loop.wait_for(self._session.truncate(last_seq))

    def delete(self) -> bool:
        """Delete the session with all its threads; True if it existed."""
        return self._loop.wait_for(self._session.delete())


@contextmanager
def open(  # noqa: A001 — reads as blocking.open(url)
    url: str = "sqlite:///wenmai.db",
    *,
    hot: str = "",
    search: str = "",
    policy: MemoryPolicy | None = None,
    clock: Clock = system_clock,
    count_tokens: TokenCounter = estimate_tokens,
    embedder: str = "none",
    store_policy: StorePolicy = "redact",
    encryption: Encryption | None = None,
) -> Iterator[BlockingMemory]:
    """Open the memory kept at ``url`` for as long as the context lasts; see :func:`wenmai.open`.

    Raises:
        UnsupportedUrl: no backend has that scheme.
        InvalidInput: the backend does not store documents and logs.
        StoreError: the store cannot be opened.
    """
    opening = open_memory(
        url,
        hot=hot,
        search=search,
        policy=policy,
        clock=clock,
        count_tokens=count_tokens,
        embedder=embedder,
        store_policy=store_policy,
        encryption=encryption,
    )
    loop = _LoopThread()
    try:
        memory = loop.wait_for(opening.__aenter__())
        try:
            yield BlockingMemory(memory, loop)
        finally:
            loop.wait_for(opening.__aexit__(None, None, None))
    finally:
        loop.close()


async def _next(messages: AsyncIterator[Message]) -> Message | None:
    return await anext(messages, None)


class _LoopThread:
    """An event loop in a separate thread, until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="wenmai-blocking", daemon=True)
        self._thread.start()

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the work on the loop; if the wait is interrupted, the work is cancelled.

        Raises:
            StoreUnavailable: the memory was closed.
        """
        if self._loop.is_closed():
            work.close()
            raise StoreUnavailable("store", "the memory is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        finally:
            future.cancel()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
