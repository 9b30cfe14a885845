"""Opening the engine: the order in which its components are built, and closed again."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from wenmai.auth.authentication import Authentication
from wenmai.auth.keys import ApiKeys
from wenmai.auth.rate_limit import RateLimit
from wenmai.chat.budgets import BudgetKeeper
from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.pipeline import Chat
from wenmai.chat.prompts import PromptRegistry
from wenmai.chat.queries import QueryDesk
from wenmai.chat.recall_model import ModelRecall
from wenmai.chat.structured_reply import StructuredModel
from wenmai.chat.summary_writer import ModelSummaryWriter
from wenmai.chat.titles import Titles
from wenmai.chat.trace import TraceLedger
from wenmai.clock import Clock, system_clock
from wenmai.config.profile import Profile
from wenmai.config.settings import Settings
from wenmai.config.sources import LoadedProfile, load_profiles
from wenmai.engine.access import limit_of_principals, open_authentication
from wenmai.engine.chatting import further_services, load_lexicons, queries_of, turn_services
from wenmai.engine.maintenance import start_maintenance
from wenmai.engine.models import open_models
from wenmai.engine.policies import memory_policy
from wenmai.engine.profile_check import check_profiles
from wenmai.engine.samples import ingest_samples
from wenmai.errors import StoreError
from wenmai.grounding.evidence import EvidenceBase
from wenmai.memory.erasure_receipts import Receipts
from wenmai.memory.library import Memory, required
from wenmai.memory.recall_model import named_reranker
from wenmai.providers.embedders import Embedder, open_embedder
from wenmai.providers.models import ChatModel
from wenmai.resilience.breaker import Breaker, BreakerPolicy
from wenmai.stores.contracts import Store
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.key_prefix import with_kept_days, with_key_prefix
from wenmai.stores.opening import encrypted_part, open_search, open_stores
from wenmai.text.tokens import estimate_tokens

DRAIN_SHARE = 0.1
"""Share of ``shutdown_seconds`` for derived memory; the next sweep finds the rest."""


@dataclass(frozen=True)
class Engine:
    """The running components; HTTP and the CLI only call them.

    Attributes:
        rate_limit: of each principal; None without authentication.
        breakers: one for each configured optional dependency.
    """

    settings: Settings
    profile: Profile
    clock: Clock
    store: Store
    memory: Memory
    evidence: EvidenceBase
    personas: PersonaRegistry
    prompts: PromptRegistry
    traces: TraceLedger
    budgets: BudgetKeeper
    titles: Titles
    chat: Chat
    queries: QueryDesk
    api_keys: ApiKeys
    authentication: Authentication
    rate_limit: RateLimit | None
    breakers: tuple[Breaker, ...]

    async def ready(self) -> dict[str, dict[str, str]]:
        """Ping the store: ``{"sqlite": {"state": "ok"}}``, or ``down`` with the error."""
        try:
            await self.store.ping()
        except StoreError as problem:
            return {self.store.name: {"state": "down", "error": str(problem)}}
        return {self.store.name: {"state": "ok"}}


@asynccontextmanager
async def open_engine(
    settings: Settings, *, clock: Clock = system_clock, breaker_policy: BreakerPolicy | None = None
) -> AsyncIterator[Engine]:
    """Open the store and all components over it; on exit background work is drained and everything is closed.

    Args:
        settings: the settings.
        clock: source of stored timestamps.
        breaker_policy: of the breakers in front of cache, model, embedder and search.

    Raises:
        WenmaiError: a setting, the profile or the store is unusable; the error says which.
    """
    profiles = load_profiles(settings.profile)
    check_profiles(profiles)
    profile = profiles[0].profile
    models = open_models(settings, profile, breaker_policy)
    async with AsyncExitStack() as closing:
        embedder = open_embedder(settings.embedder, connections=closing)
        lexicons = await load_lexicons(profiles, verifies=models.answering is not None)
        store, store_breakers = await closing.enter_async_context(_open_store(settings, clock, breaker_policy))
        limit = await closing.enter_async_context(limit_of_principals(settings, breaker_policy))
        documents, _ = required(store, settings.store)
        index = store.search
        if settings.evidence:
            index = await closing.enter_async_context(open_search(settings.evidence, setting="evidence", clock=clock))
        evidence = EvidenceBase(documents, index, embedder, policy=breaker_policy, clock=clock)
        closing.push_async_callback(evidence.close)
        closing.push_async_callback(models.close)
        memory = _memory(settings, profiles, store, evidence, embedder, models.answering, clock)
        services = turn_services(settings, profiles, lexicons[0], documents, memory, evidence, models, clock)
        await ingest_samples(evidence, profiles, settings)
        titles = Titles(memory, services.traces, services.budgets, models.answering)
        memory.derived.register(titles)
        if models.answering is not None:
            _let_model_help(memory, services.budgets, models.answering, settings)
        memory.derived.start()
        closing.push_async_callback(memory.derived.stop, settings.shutdown_seconds * DRAIN_SHARE)
        closing.push_async_callback(start_maintenance(documents, memory).stop, 0)
        api_keys = ApiKeys(documents, clock, pepper=settings.key_pepper)
        chat = Chat(services, further_services(services, profiles, lexicons), replay_models=models.replaying)
        yield Engine(
            settings=settings,
            profile=profile,
            clock=clock,
            store=store,
            memory=memory,
            evidence=evidence,
            personas=services.personas,
            prompts=services.prompts,
            traces=services.traces,
            budgets=services.budgets,
            titles=titles,
            chat=chat,
            queries=QueryDesk(chat, queries_of(profiles)),
            api_keys=api_keys,
            authentication=open_authentication(settings, api_keys),
            rate_limit=limit,
            breakers=(*store_breakers, *models.breakers, *evidence.breakers, *(limit.breakers if limit else ())),
        )


def _open_store(
    settings: Settings, clock: Clock, policy: BreakerPolicy | None
) -> AbstractAsyncContextManager[tuple[Store, Sequence[Breaker]]]:
    """The store of the settings, with cache and search, and the breakers in front of them."""
    url = with_kept_days(with_key_prefix(settings.store, settings.key_prefix), settings.session_retention_days)
    return open_stores(
        url,
        with_key_prefix(settings.hot, settings.key_prefix),
        search=settings.search,
        clock=clock,
        breaker_policy=policy,
        policy=settings.store_policy,
        encryption=Encryption.of_settings(**settings.encryption),
    )


def _memory(
    settings: Settings,
    profiles: Sequence[LoadedProfile],
    store: Store,
    evidence: EvidenceBase,
    embedder: Embedder | None,
    model: ChatModel | None,
    clock: Clock,
) -> Memory:
    """The memory over a store, with the reranker and the receipts of erasures that the settings name."""
    memory = Memory(
        *required(store, settings.store),
        clock=clock,
        policy=memory_policy(settings, profiles, titled_by_model=model is not None),
        count_tokens=model.count_tokens if model else estimate_tokens,
        search=store.search,
        embedder=embedder if settings.remembers_vectors else None,
        queries=evidence.queries if settings.remembers_vectors else None,
        encrypted=encrypted_part(store),
    )
    memory.recalls.reranker = named_reranker(settings.reranker, settings.recall_model_seconds)
    memory.erasures.receipts = Receipts.of_urls(
        settings.store, settings.hot, settings.search, settings.keys_store, key=settings.receipt_key
    )
    return memory


def _let_model_help(memory: Memory, budgets: BudgetKeeper, model: ChatModel, settings: Settings) -> None:
    """Let the model write summaries and, where the settings say so, rerank and split what is recalled."""
    memory.summaries.writer = ModelSummaryWriter(memory, budgets, model)
    helper = ModelRecall(StructuredModel(memory, budgets, model, settings.recall_model_seconds))
    if settings.reranker == "model":
        memory.recalls.reranker = helper
    if settings.query_decomposition == "model":
        memory.recalls.decomposer = helper
