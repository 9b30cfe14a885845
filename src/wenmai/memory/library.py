"""The library API: the memory over one store, for programs that embed Wenmai."""

import re
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
from wenmai.memory.context import ContextBuilder
from wenmai.memory.derived import DerivedMemory
from wenmai.memory.derived_preferences import DerivedPreferences
from wenmai.memory.episode_deletion import EpisodeDeletion
from wenmai.memory.episodes import EpisodeIndex, Episodes, EpisodeVectors
from wenmai.memory.erasure import Erasures
from wenmai.memory.erasure_receipts import Receipts
from wenmai.memory.first_question import DerivedFirstQuestion
from wenmai.memory.history import ASSISTANT, History
from wenmai.memory.idempotency import IdempotentTurns
from wenmai.memory.ids import checked_id, checked_scope
from wenmai.memory.preferences import PreferenceBook, checked_language
from wenmai.memory.recall import Recall
from wenmai.memory.recalled_items import RecalledItem, RecallQuery
from wenmai.memory.recent_messages import RecentMessages
from wenmai.memory.retention import RetentionPolicy
from wenmai.memory.retention_sweep import RetentionSweep
from wenmai.memory.session_memory import SessionMemory
from wenmai.memory.sessions import OpenedSession, Sessions, SessionTerms
from wenmai.memory.state import StateBook
from wenmai.memory.summaries import Summaries
from wenmai.memory.thread_listing import ThreadListing
from wenmai.memory.thread_lock import ThreadLock
from wenmai.memory.trace_archive import TraceArchive
from wenmai.memory.transcript import Transcript
from wenmai.memory.usage import UsageLedger
from wenmai.memory.user_data import UserData
from wenmai.memory.window import WindowLimits, check_limits
from wenmai.providers.embedders import Embedder, open_embedder
from wenmai.retrieval.query_embedding import QueryEmbedding
from wenmai.scope import Scope, ThreadKey
from wenmai.stores.contracts import Documents, Logs, Search, Store
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.opening import StorePolicy, encrypted_part, open_stores
from wenmai.stores.validation import check_at_least
from wenmai.text.id_template import ID_TEMPLATE, SESSION_IDS, TEMPLATE_RULE
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

    def __post_init__(self) -> None:
        """Refuse values with which nothing could be stored, or sessions would collide.

        Raises:
            InvalidInput: naming the field.
        """
        lifetime: object = self.session_lifetime
        if not isinstance(lifetime, timedelta) or lifetime < timedelta(seconds=1):
            raise InvalidInput("session_lifetime", lifetime, "a timedelta of at least a second")
        if not re.match(ID_TEMPLATE, str(self.session_ids)):
            raise InvalidInput("session_ids", self.session_ids, TEMPLATE_RULE)
        check_limits(self.window)
        check_at_least("history_cap", self.history_cap, 1)
        checked_language(self.language)


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
        return await self.recalls.recall(checked_scope(scope), RecallQuery(query=query, **limits))

    async def session(
        self,
        session_id: str | None = None,
        *,
        scope: Scope | None = None,
        persona_id: str = ASSISTANT,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> SessionMemory:
        """Continue the session of that id, or create one with this title and metadata; see :meth:`Sessions.open`."""
        checked_id("persona_id", persona_id)
        scope = checked_scope(scope)
        opened = await self.sessions.open(scope, session_id, title=title, metadata=metadata)
        return SessionMemory(self, scope, opened, persona_id)

    async def find(
        self, session_id: str, *, scope: Scope | None = None, persona_id: str = ASSISTANT
    ) -> SessionMemory | None:
        """The session of that id, expired or not; None if it is absent or foreign. Nothing is created."""
        checked_id("persona_id", persona_id)
        scope = checked_scope(scope)
        try:
            stored = await self.sessions.get(scope, session_id)
        except SessionNotFound:
            return None
        return SessionMemory(self, scope, OpenedSession(stored, created=False), persona_id)


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
