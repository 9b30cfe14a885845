"""The engine: builds all components from the settings and owns their lifetimes."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from wenmai.auth.authentication import Authentication, open_tokens
from wenmai.auth.keys import ApiKeys
from wenmai.auth.principal import ClaimNames
from wenmai.auth.rate_limit import RateLimit, open_rate_limit
from wenmai.chat.budgets import BudgetKeeper
from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.pipeline import Chat
from wenmai.chat.prompts import PromptRegistry
from wenmai.chat.queries import QueryDesk
from wenmai.chat.recall_model import ModelRecall
from wenmai.chat.steps.generate import OFFLINE
from wenmai.chat.structured_reply import StructuredModel
from wenmai.chat.suggestions import Suggestions
from wenmai.chat.summary_writer import ModelSummaryWriter
from wenmai.chat.titles import Titles
from wenmai.chat.trace import TraceLedger
from wenmai.chat.turn import Services, TurnPolicy
from wenmai.chat.understanding_model import ModelUnderstanding
from wenmai.chat.verifier import ModelVerifier
from wenmai.clock import Clock, system_clock
from wenmai.config.profile import Profile
from wenmai.config.queries import Queries
from wenmai.config.settings import Settings
from wenmai.config.sources import LoadedProfile, load_engine_settings, load_profiles, profile_path
from wenmai.errors import InvalidInput, StoreError
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.evidence.parsing import BadLine, parse
from wenmai.grounding.lexicon import Lexicon, prepare
from wenmai.grounding.romanisation import load_readings
from wenmai.grounding.wording.words import load_words
from wenmai.memory.block_budget import DEFAULT_WEIGHTS, BlockWeight
from wenmai.memory.erasure_receipts import Receipts
from wenmai.memory.library import Memory, MemoryPolicy, required
from wenmai.memory.recall_model import named_reranker
from wenmai.memory.retention import Retention, RetentionPolicy
from wenmai.memory.sessions import SessionTerms
from wenmai.memory.window import WindowLimits
from wenmai.providers.embedders import open_embedder
from wenmai.providers.models import ChatModel, Guard, ModelLimits, open_model
from wenmai.providers.pricing import Price
from wenmai.resilience.background import BackgroundTasks
from wenmai.resilience.breaker import MODEL, Breaker, BreakerPolicy
from wenmai.scope import Scope
from wenmai.stores.contracts import Documents, Store
from wenmai.stores.encryption.settings import Encryption
from wenmai.stores.key_prefix import with_kept_days, with_key_prefix
from wenmai.stores.opening import encrypted_part, open_stores
from wenmai.stores.records import EvidenceRecord
from wenmai.text.cjk import load_dictionaries
from wenmai.text.tokens import estimate_tokens

__all__ = ["Engine", "load_engine_settings", "open_engine", "profile_path"]


_log = logging.getLogger(__name__)

SWEEP_SECONDS = 600.0

ERASURE_SECONDS = 30.0
"""Interval at which interrupted erasures are continued."""

RETENTION_SECONDS, RETENTION_DELAY = 3600.0, 60.0
"""Interval at which sessions past their retention are removed, and delay of the first time."""

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
    profile = profiles[0].profile
    model, verifying, model_breakers = _models(settings, profile, breaker_policy)
    connections = AsyncExitStack()
    embedder = open_embedder(settings.embedder, connections=connections)
    lexicons = [Lexicon(each.profile.field_words) for each in profiles]
    for lexicon in lexicons:
        await _load_words(lexicon, verifies=model is not None)
    store_url, hot_url = (with_key_prefix(url, settings.key_prefix) for url in (settings.store, settings.hot))
    store_url = with_kept_days(store_url, settings.session_retention_days)
    opening = open_stores(
        store_url,
        hot_url,
        search=settings.search,
        clock=clock,
        breaker_policy=breaker_policy,
        policy=settings.store_policy,
        encryption=Encryption.of_settings(**settings.encryption),
    )
    async with opening as (store, store_breakers), _rate_limit(settings, store_url, hot_url, breaker_policy) as limit:
        documents, logs = required(store, settings.store)
        count_tokens = model.count_tokens if model else estimate_tokens
        policy = _policy(settings, profiles, titled_by_model=model is not None)
        evidence = EvidenceBase(documents, store.search, embedder, policy=breaker_policy, clock=clock)
        memory = Memory(
            documents,
            logs,
            clock=clock,
            policy=policy,
            count_tokens=count_tokens,
            search=store.search,
            embedder=embedder if settings.remembers_vectors else None,
            queries=evidence.queries if settings.remembers_vectors else None,
            encrypted=encrypted_part(store),
        )
        services = _services(settings, profiles, lexicons[0], documents, memory, evidence, model, clock)
        if verifying is not None:
            services = replace(services, verifier=ModelVerifier(verifying, settings.verifier_seconds))
        if model is not None and settings.understanding == "model":
            asking = StructuredModel(memory, services.budgets, model, settings.understanding_seconds)
            services = replace(services, understanding=ModelUnderstanding(asking))
        await _ingest_samples(evidence, profiles, settings)
        titles = Titles(memory, services.traces, services.budgets, model)
        memory.derived.register(titles)
        _equip(memory, services.budgets, model, settings)
        memory.erasures.receipts = Receipts.of_urls(
            settings.store, settings.hot, settings.search, settings.keys_store, key=settings.receipt_key
        )
        memory.derived.start()
        tasks = _repeated(documents, memory)
        api_keys = ApiKeys(documents, clock, pepper=settings.key_pepper)
        replay_models = _replay_models(settings, profile)
        chat = Chat(services, _further_services(services, profiles, lexicons), replay_models=replay_models)
        try:
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
                queries=QueryDesk(chat, _queries(profiles)),
                api_keys=api_keys,
                authentication=_authentication(settings, api_keys),
                rate_limit=limit,
                breakers=(*store_breakers, *model_breakers, *evidence.breakers, *(limit.breakers if limit else ())),
            )
        finally:
            await tasks.stop(0)
            await memory.derived.stop(settings.shutdown_seconds * DRAIN_SHARE)
            for each in filter(None, {model, verifying, *replay_models.values()}):
                await each.close()
            await evidence.close()
            await connections.aclose()


def _equip(memory: Memory, budgets: BudgetKeeper, model: ChatModel | None, settings: Settings) -> None:
    """Give the memory its reranker, and the model for summaries and recall."""
    memory.recalls.reranker = named_reranker(settings.reranker, settings.recall_model_seconds)
    if model is not None:
        memory.summaries.writer = ModelSummaryWriter(memory, budgets, model)
        helper = ModelRecall(StructuredModel(memory, budgets, model, settings.recall_model_seconds))
        memory.recalls.reranker = helper if settings.reranker == "model" else memory.recalls.reranker
        memory.recalls.decomposer = helper if settings.query_decomposition == "model" else None


def _repeated(documents: Documents, memory: Memory) -> BackgroundTasks:
    """The tasks that run again and again."""
    tasks = BackgroundTasks()
    tasks.repeat("sweep of expired records", partial(_delete_expired, documents), seconds=SWEEP_SECONDS)
    tasks.repeat(
        "sweep of what is past its retention",
        memory.retention.run,
        seconds=RETENTION_SECONDS,
        first_after=RETENTION_DELAY,
    )
    tasks.repeat("erasures that were interrupted", memory.erasures.resume, seconds=ERASURE_SECONDS)
    return tasks


@asynccontextmanager
async def _rate_limit(
    settings: Settings, store_url: str, hot_url: str, policy: BreakerPolicy | None
) -> AsyncIterator[RateLimit | None]:
    """The limit of each principal; it has a bucket for all processes where there is a Redis server."""
    if settings.auth == "none":
        yield None
        return
    redis_url = hot_url or (store_url if store_url.startswith("redis") else "")
    async with open_rate_limit(settings.rate_limit, redis_url, policy) as limit:
        yield limit


def _authentication(settings: Settings, keys: ApiKeys) -> Authentication:
    """What the setting ``auth`` accepts."""
    accepted = settings.auth.split(",")
    claims = ClaimNames(
        settings.jwt_tenant_claim,
        settings.jwt_user_claim,
        settings.jwt_sites_claim,
        settings.jwt_rights_claim,
    )
    tokens = None
    if "jwt" in accepted:
        tokens = open_tokens(settings.jwt_issuer, settings.jwt_audience, settings.jwt_keys, claims)
    return Authentication(keys if "keys" in accepted else None, tokens)


async def _load_words(lexicon: Lexicon, *, verifies: bool) -> None:
    """Load dictionaries and patterns in a thread, or the first question would block the event loop."""
    loads: list[Callable[[], object]] = [load_dictionaries, partial(prepare, lexicon)]
    if verifies:
        loads += [load_words, load_readings]
    for load in loads:
        await asyncio.to_thread(load)


def _models(
    settings: Settings, profile: Profile, policy: BreakerPolicy | None
) -> tuple[ChatModel | None, ChatModel | None, list[Breaker]]:
    """The model that answers, the one that verifies, which may be the same, and their breakers."""
    model_breaker = Breaker("model", kind=MODEL, policy=policy)
    verifier_breaker = Breaker("verifier", kind=MODEL, policy=policy)
    model = _model(settings, profile, model_breaker)
    verifying = _verifying_model(settings, profile, model, verifier_breaker)
    own = ((model, model_breaker), (verifying, verifier_breaker if verifying is not model else None))
    return model, verifying, [breaker for opened, breaker in own if opened is not None and breaker is not None]


def _services(
    settings: Settings,
    profiles: Sequence[LoadedProfile],
    lexicon: Lexicon,
    documents: Documents,
    memory: Memory,
    evidence: EvidenceBase,
    model: ChatModel | None,
    clock: Clock,
) -> Services:
    """What the steps of a turn use, for the personas of the first profile."""
    profile = profiles[0].profile
    return Services(
        memory=memory,
        evidence=evidence,
        personas=PersonaRegistry(documents, [persona for each in profiles for persona in each.profile.personas]),
        prompts=PromptRegistry(documents),
        suggestions=Suggestions(evidence, profile, lexicon),
        traces=TraceLedger(documents, clock, retention=memory.policy.retention),
        budgets=BudgetKeeper(profile.budgets, memory, clock),
        profile=profile,
        lexicon=lexicon,
        policy=TurnPolicy(
            memory_enabled=settings.memory_enabled,
            prompt_budget_tokens=settings.prompt_budget_tokens,
            default_language=settings.language,
        ),
        clock=clock,
        model=model,
        count_tokens=model.count_tokens if model else estimate_tokens,
    )


def _further_services(
    services: Services, profiles: Sequence[LoadedProfile], lexicons: Sequence[Lexicon]
) -> dict[str, Services]:
    """The services of the personas of further profiles, with the words, rules and session terms of their profile."""
    further = {}
    for each, lexicon in zip(profiles[1:], lexicons[1:], strict=True):
        own = replace(
            services,
            profile=each.profile,
            lexicon=lexicon,
            suggestions=Suggestions(services.evidence, each.profile, lexicon),
            terms=SessionTerms(timedelta(seconds=each.settings.session_lifetime_seconds), each.settings.session_ids),
        )
        further.update({persona.persona_id: own for persona in each.profile.personas})
    return further


def _queries(profiles: Sequence[LoadedProfile]) -> Queries:
    """Of the first profile that has the persona that they name."""
    for _, profile in profiles:
        if profile.queries.persona in {persona.persona_id for persona in profile.personas}:
            return profile.queries
    return profiles[0].profile.queries


async def _delete_expired(documents: Documents) -> None:
    """Delete expired records from disk; readers do not see them anyway."""
    removed = await documents.sweep()
    _log.log(logging.INFO if removed else logging.DEBUG, "deleted %d expired records", removed)


def _policy(settings: Settings, profiles: Sequence[LoadedProfile], *, titled_by_model: bool) -> MemoryPolicy:
    profile = profiles[0].profile
    return MemoryPolicy(
        session_lifetime=timedelta(seconds=settings.session_lifetime_seconds),
        session_ids=settings.session_ids,
        window=WindowLimits(**settings.window),
        history_cap=settings.history_cap,
        language=settings.language,
        topic_words=[word for each in profiles for word in each.profile.lexicon.topics],
        block_weights={
            **DEFAULT_WEIGHTS,
            **{kind: BlockWeight(share.weight, share.limit) for kind, share in profile.blocks.items()},
        },
        rule_titles_final=not titled_by_model,
        retention=_retention(settings, [each.profile for each in profiles]),
        business=next((each.profile.business for each in profiles if each.profile.business), None),
    )


def _retention(settings: Settings, profiles: Sequence[Profile]) -> RetentionPolicy:
    """That of the settings, and of the tenants that a profile names.

    Raises:
        InvalidInput: a tenant's sessions are to be kept longer than the settings allow, or anything over a century.
    """
    days = (settings.session_retention_days, settings.trace_retention_days, settings.episode_retention_days)
    tenants = {}
    for tenant_id, own in [each for profile in profiles for each in profile.retention.items()]:
        if own.session_days and 0 < settings.session_retention_days < own.session_days:
            allowed = f"at most session_retention_days, {settings.session_retention_days}"
            raise InvalidInput(f"retention.{tenant_id}.session_days", own.session_days, allowed)
        named = (own.session_days, own.trace_days, own.episode_days)
        sessions, traces, episodes = (mine or default for mine, default in zip(named, days, strict=True))
        tenants[tenant_id] = Retention.of_days(sessions=sessions, traces=traces, episodes=episodes)
    default = Retention.of_days(sessions=days[0], traces=days[1], episodes=days[2])
    return RetentionPolicy(default=default, tenants=tenants)


def _model(settings: Settings, profile: Profile, breaker: Breaker) -> ChatModel | None:
    if settings.model in ("", OFFLINE):
        return None
    return _open_model(settings.model, settings, profile, _price(settings, profile), breaker.guard)


def _verifying_model(
    settings: Settings, profile: Profile, model: ChatModel | None, breaker: Breaker
) -> ChatModel | None:
    """The model that checks answers; None if there are none to check."""
    if settings.verifier != "model" or model is None:
        return None
    name = settings.verifier_model
    return _open_model(name, settings, profile, profile.prices.get(name), breaker.guard) if name else model


def _replay_models(settings: Settings, profile: Profile) -> dict[str, ChatModel]:
    """Further models that a replay may use."""
    names = [name for name in settings.replay_models if name != settings.model]
    return {name: _open_model(name, settings, profile, profile.prices.get(name), nullcontext) for name in names}


def _open_model(name: str, settings: Settings, profile: Profile, price: Price | None, guard: Guard) -> ChatModel:
    """A model with the limits of the settings, and their server if it has the provider of the model that answers."""
    if price is None and (cost_budgets := profile.budgets.in_dollars):
        allowed = f"usable without the price of {name}: set it in the profile's `prices`"
        raise InvalidInput(
            f"budgets.{cost_budgets[0]}.cost_usd", getattr(profile.budgets, cost_budgets[0]).cost_usd, allowed
        )
    same_server = name.partition(":")[0] == settings.model.partition(":")[0]
    return open_model(
        name,
        base_url=settings.model_base_url or None if same_server else None,
        api_key=settings.model_api_key or None if same_server else None,
        limits=ModelLimits(
            timeout_seconds=settings.model_timeout_seconds,
            first_token_seconds=settings.model_first_token_seconds,
            attempts=settings.model_attempts,
        ),
        answer_tokens=settings.model_max_tokens,
        price=price,
        guard=guard,
    )


def _price(settings: Settings, profile: Profile) -> Price | None:
    """The model's price, from the settings or else from the profile."""
    prompt, completion = settings.price_prompt, settings.price_completion
    if prompt is None and completion is None:
        return profile.prices.get(settings.model)
    if prompt is None or completion is None:
        missing = "price_prompt" if prompt is None else "price_completion"
        raise InvalidInput(missing, None, "a price: set both prices or neither")
    return Price(prompt_per_million=prompt, completion_per_million=completion)


async def _ingest_samples(evidence: EvidenceBase, profiles: Sequence[LoadedProfile], settings: Settings) -> None:
    """Ingest the profiles' evidence into each of their sample sites that has none, and embed what is not embedded yet.

    The sample sites of the first profile are those of the settings.
    """
    of_site: dict[str, list[LoadedProfile]] = {}
    for at, each in enumerate(profiles):
        for site in each.settings.sample_sites if at else settings.sample_sites:
            of_site.setdefault(site, []).append(each)
    for site, samples in of_site.items():
        tenant_id, _, site_id = site.partition("/")
        scope = Scope(tenant_id, site_id)
        if not (await evidence.list(scope, limit=1)).items:
            for path, profile in samples:
                await evidence.ingest(scope, _samples(profile, path.parent))
        evidence.start_embedding(scope)


def _samples(profile: Profile, folder: Path) -> list[EvidenceRecord]:
    records = []
    for name in profile.evidence:
        for record in parse((folder / name).read_bytes(), name):
            if isinstance(record, BadLine):
                raise InvalidInput("evidence", f"{name}:{record.line}", f"readable: {record.reason}")
            records.append(record)
    return records
