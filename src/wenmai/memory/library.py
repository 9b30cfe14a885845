"""The library API: sessions as objects, for programs that embed Wenmai."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from wenmai.business.rules import BusinessRules
from wenmai.clock import Clock, system_clock
from wenmai.errors import InvalidInput, SessionNotFound
from wenmai.memory.audit import AuditLog
from wenmai.memory.block_budget import DEFAULT_WEIGHTS, BlockWeight
from wenmai.memory.context import Context, ContextBuilder
from wenmai.memory.derived import DerivedMemory
from wenmai.memory.derived_preferences import DerivedPreferences
from wenmai.memory.episode_deletion import EpisodeDeletion
from wenmai.memory.episodes import EpisodeIndex, Episodes, EpisodeVectors
from wenmai.memory.erasure import Erasures
from wenmai.memory.erasure_receipts import Receipts
from wenmai.memory.first_question import DerivedFirstQuestion, FirstQuestion
from wenmai.memory.history import ASSISTANT, History, MessagePage, SessionOverview
from wenmai.memory.idempotency import IdempotentTurns
from wenmai.memory.ids import checked_id
from wenmai.memory.preferences import PreferenceBook, PreferenceChange, SessionPreferences
from wenmai.memory.recall import Recall
from wenmai.memory.recalled_items import RecalledItem, RecallQuery
from wenmai.memory.recent_messages import RecentMessages
from wenmai.memory.retention import RetentionPolicy
from wenmai.memory.retention_sweep import RetentionSweep
from wenmai.memory.sessions import OpenedSession, Sessions, SessionTerms
from wenmai.memory.state import StateBook, StateUpdate
from wenmai.memory.state_correction import StateCorrection
from wenmai.memory.summaries import Summaries, ThreadSummary
from wenmai.memory.thread_listing import ThreadListing
from wenmai.memory.thread_lock import ThreadLock
from wenmai.memory.trace_archive import TraceArchive
from wenmai.memory.transcript import MessageInput, Transcript
from wenmai.memory.usage import UsageLedger
from wenmai.memory.user_data import UserData
from wenmai.memory.window import Window, WindowLimits
from wenmai.providers.embedders import Embedder, open_embedder
from wenmai.retrieval.query_embedding import QueryEmbedding
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.opening import StorePolicy, encrypted_part, open_stores
from wenmai.stores.records import BusinessState, Message, Session, StateChange
from wenmai.text.id_template import SESSION_IDS
from wenmai.text.tokens import TokenCounter, estimate_tokens

if TYPE_CHECKING:
    from wenmai.stores.encryption.store import EncryptedStore

DRAIN_SECONDS = 2.0
"""Time for derived memory when the library is closed; the rest is done after the next start."""


class MemoryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Retention and window defaults.

    Attributes:
        session_lifetime: time without activity after which a session expires.
        session_ids: template of generated session ids, see :func:`wenmai.text.id_template.new_id`.
        window: default limits of the window.
        history_cap: the most messages that any window reaches back.
        language: the default, until the user chooses or uses another.
        topic_words: words that can become interest tags, if a user mentions them repeatedly.
        retention: how long what is stored is kept.
        block_weights: how a prompt's budget is divided; see :mod:`wenmai.memory.block_budget`.
        rule_titles_final: False if a model makes the titles of sessions; the rule's are then provisional.
        business: the rules of the business state; None recognizes nothing.
    """

    session_lifetime: timedelta = timedelta(days=30)
    session_ids: str = SESSION_IDS
    window: WindowLimits = WindowLimits()
    history_cap: int = 500
    language: str = "zh"
    topic_words: Sequence[str] = ()
    retention: RetentionPolicy = RetentionPolicy()
    block_weights: Mapping[str, BlockWeight] = DEFAULT_WEIGHTS
    rule_titles_final: bool = True
    business: BusinessRules | None = None


class Memory:
    """The memory over one store.

    Attributes:
        sessions, transcript, preferences, states, traces, history, summaries, contexts, recalls, thread_lock,
            idempotency, usage, first_questions, audit, erasures, retention: its parts, usable alone.
        derived: what is made from transcripts in the background, once it is started.
        episodes: the recall index; None for a store without search.
        word_functions, vector_functions: the names of the derived functions that keep it.
        policy: see :class:`MemoryPolicy`.
        clock: the source of stored timestamps.
    """

    def __init__(
        self,
        documents: Documents,
        logs: Logs,
        *,
        clock: Clock = system_clock,
        policy: MemoryPolicy | None = None,
        count_tokens: TokenCounter = estimate_tokens,
        search: Search | None = None,
        embedder: Embedder | None = None,
        queries: QueryEmbedding | None = None,
        encrypted: "EncryptedStore | None" = None,
    ) -> None:
        self.policy: MemoryPolicy = policy or MemoryPolicy()
        self.clock: Clock = clock
        self.derived: DerivedMemory = DerivedMemory(documents, logs, clock)
        keyed = encrypted is not None and encrypted.writes
        self.episodes: EpisodeIndex | None = (
            None if search is None else EpisodeIndex(documents, logs, search, embedder, keyed=keyed)
        )
        self._open_conversations(documents, logs, count_tokens)
        self._open_recall(logs, queries or QueryEmbedding(embedder), count_tokens)
        self.thread_lock: ThreadLock = ThreadLock(documents, clock)
        self.idempotency: IdempotentTurns = IdempotentTurns(documents, clock)
        self.usage: UsageLedger = UsageLedger(documents, self.sessions, clock)
        self.audit: AuditLog = AuditLog(documents, clock)
        self._open_removal(documents, logs, encrypted)
        self._register_derived(logs, embedder)

    def _open_conversations(self, documents: Documents, logs: Logs, count_tokens: TokenCounter) -> None:
        """Sessions, their transcripts and what is read of both, and the preferences and state of a session."""
        deletion = EpisodeDeletion(self.episodes, self.derived, logs)
        self.sessions: Sessions = Sessions(
            documents,
            logs,
            self.clock,
            terms=SessionTerms(self.policy.session_lifetime, self.policy.session_ids),
            rule_titles_final=self.policy.rule_titles_final,
            on_cut=self._on_cut,
            on_delete=deletion.around,
        )
        self.transcript: Transcript = Transcript(
            logs,
            history_cap=self.policy.history_cap,
            count_tokens=count_tokens,
            on_change=self.derived.schedule,
            on_complete=self.derived.schedule_completed,
            on_cut=self._on_cut,
            on_truncate=deletion.around,
        )
        self.preferences: PreferenceBook = PreferenceBook(documents, default_language=self.policy.language)
        self.states: StateBook = StateBook(documents, self.clock, self.policy.business)
        self.traces: TraceArchive = TraceArchive(documents, self.clock, self.policy.retention)
        self.threads: ThreadListing = ThreadListing(documents, logs)
        self.history: History = History(self.sessions, self.transcript, self.preferences)
        self.summaries: Summaries = Summaries(
            documents, logs, self.transcript, window=self.policy.window, count_tokens=count_tokens
        )

    def _open_recall(self, logs: Logs, questions: QueryEmbedding, count_tokens: TokenCounter) -> None:
        """Recall, and the contexts that it is part of."""
        recent = RecentMessages(self.sessions, self.history)
        self.recalls: Recall = Recall(self.episodes, questions, logs, self.sessions, recent, self.clock, count_tokens)
        self.contexts: ContextBuilder = ContextBuilder(
            self.transcript,
            self.preferences,
            self.summaries,
            self.recalls,
            limits=self.policy.window,
            weights=self.policy.block_weights,
            count_tokens=count_tokens,
        )

    def _open_removal(self, documents: Documents, logs: Logs, encrypted: "EncryptedStore | None") -> None:
        """Erasure and retention."""
        # Removed is also what cannot be decrypted any more.
        stored = (encrypted and encrypted.stored.documents) or documents
        keys = None if encrypted is None else encrypted.keys
        data = UserData(stored, logs, self.episodes, self.usage, keys)
        self.erasures: Erasures = Erasures(stored, data, self.audit, self.clock)
        self.retention: RetentionSweep = RetentionSweep(
            stored, logs, self.sessions, self.episodes, self.clock, self.policy.retention
        )
        self.usage.was_erased = self.erasures.was_erased_lately

    def _register_derived(self, logs: Logs, embedder: Embedder | None) -> None:
        """Everything that is made from transcripts in the background."""
        self.first_questions: DerivedFirstQuestion = DerivedFirstQuestion(self.sessions, logs)
        self.derived.register(self.first_questions)
        inferred = DerivedPreferences(
            self.preferences,
            logs,
            window=self.policy.window.messages,
            history_cap=self.policy.history_cap,
            topic_words=self.policy.topic_words,
        )
        self.derived.register(inferred)
        self.derived.register(self.summaries)
        self.word_functions: list[str] = []
        self.vector_functions: list[str] = []
        if self.episodes is not None:
            words = Episodes(self.episodes)
            self.derived.register(words, leased=False)
            self.word_functions.append(words.name)
            if embedder is not None:
                vectors = EpisodeVectors(self.episodes, words, self.derived.watermarks, embedder)
                self.derived.register(vectors)
                self.vector_functions.append(vectors.name)

    async def _on_cut(self, scope: Scope, thread: ThreadKey) -> None:
        """Forget what was derived from the messages that a thread lost."""
        await self.derived.schedule_after_cut(scope, thread)
        await self.summaries.discard(scope, thread)

    async def recall(self, query: str, *, scope: Scope | None = None, **limits: Any) -> list[RecalledItem]:
        """What the user's sessions say about ``query``, best first; keywords are the fields of :class:`RecallQuery`.

        A message is found by its words within seconds of its append, and by its meaning when it is embedded.
        """
        return await self.recalls.recall(scope or Scope(), RecallQuery(query=query, **limits))

    async def session(
        self,
        session_id: str | None = None,
        *,
        scope: Scope | None = None,
        persona_id: str = ASSISTANT,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> "SessionMemory":
        """Continue the session of that id, or create one with this title and metadata; see :meth:`Sessions.open`."""
        checked_id("persona_id", persona_id)
        scope = scope or Scope()
        opened = await self.sessions.open(scope, session_id, title=title, metadata=metadata)
        return SessionMemory(self, scope, opened, persona_id)

    async def find(
        self, session_id: str, *, scope: Scope | None = None, persona_id: str = ASSISTANT
    ) -> "SessionMemory | None":
        """The session of that id, expired or not; None if it is absent or foreign. Nothing is created."""
        checked_id("persona_id", persona_id)
        scope = scope or Scope()
        try:
            stored = await self.sessions.get(scope, session_id)
        except SessionNotFound:
            return None
        return SessionMemory(self, scope, OpenedSession(stored, created=False), persona_id)


class SessionMemory:
    """A session, with the thread of one persona.

    Attributes:
        session_id: differs from the requested id if that session was expired or another user's.
        created: True if the session is new.
    """

    def __init__(self, memory: Memory, scope: Scope, opened: OpenedSession, persona_id: str) -> None:
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
        """What this persona's thread says about ``query``; see :meth:`Memory.recall`."""
        return await self._memory.recall(query, scope=self._scope, **self._thread._asdict() | limits)

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


@asynccontextmanager
async def open_memory(
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
) -> AsyncIterator[Memory]:
    """Open the memory kept at ``url`` for as long as the context lasts.

    Never open the file of a ``sqlite:`` URL with the standard ``sqlite3`` module in the same process meanwhile: that
    deletes its log, and all further operations fail. :func:`wenmai.stores.sqlite.query_readonly` reads it safely.

    Args:
        url: of the durable store, which acknowledges every write.
        hot: URL of a Redis cache in front of it, which may fail at any time; "" for none.
        search: URL of another store that has the search indexes; "" for that at ``url``.
        policy: see :class:`MemoryPolicy`.
        clock: the source of stored timestamps.
        count_tokens: counts the tokens of a text.
        embedder: by name, for recall by meaning too; see :func:`wenmai.providers.embedders.open_embedder`.
        store_policy: ``redact`` replaces private values before they are stored, ``encrypt`` encrypts what users say,
            ``off`` stores it as it is.
        encryption: the keys for ``encrypt``.

    Raises:
        UnsupportedUrl: no backend has that scheme.
        InvalidInput: the backend does not store documents and logs.
        StoreError: the store cannot be opened.
    """
    opening = open_stores(url, hot, search=search, clock=clock, policy=store_policy, encryption=encryption)
    async with AsyncExitStack() as connections, opening as (store, _):
        documents, logs = required(store, url)
        remembers_vectors = store_policy != "encrypt" or (encryption is not None and encryption.vectors)
        memory = Memory(
            documents,
            logs,
            clock=clock,
            policy=policy,
            count_tokens=count_tokens,
            search=store.search,
            embedder=open_embedder(embedder, connections=connections) if remembers_vectors else None,
            encrypted=encrypted_part(store),
        )
        memory.erasures.receipts = Receipts.of_urls(url, hot, search, encryption.keys_store if encryption else "")
        memory.derived.start()
        try:
            yield memory
        finally:
            await memory.derived.stop(DRAIN_SECONDS)


def required(store: Store, url: str) -> tuple[Documents, Logs]:
    """The store contracts that the memory needs.

    Raises:
        InvalidInput: the store does not implement them.
    """
    if store.documents is None or store.logs is None:
        raise InvalidInput("store", url, "a store of documents and logs")
    return store.documents, store.logs
