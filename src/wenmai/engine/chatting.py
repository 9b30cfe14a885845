"""The chat over the memory and the evidence: services of a turn for the personas of each profile."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial

from wenmai.chat.budgets import BudgetKeeper
from wenmai.chat.persona import PersonaRegistry
from wenmai.chat.prompts import PromptRegistry
from wenmai.chat.structured_reply import StructuredModel
from wenmai.chat.suggestions import Suggestions
from wenmai.chat.trace import TraceLedger
from wenmai.chat.turn import Services, TurnPolicy
from wenmai.chat.understanding_model import ModelUnderstanding
from wenmai.chat.verifier import ModelVerifier
from wenmai.clock import Clock
from wenmai.config.queries import Queries
from wenmai.config.settings import Settings
from wenmai.config.sources import LoadedProfile
from wenmai.engine.models import Models
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.lexicon import Lexicon, prepare
from wenmai.grounding.romanisation import load_readings
from wenmai.grounding.wording.words import load_words
from wenmai.memory.library import Memory
from wenmai.memory.sessions import SessionTerms
from wenmai.stores.contracts import Documents
from wenmai.text.cjk import load_dictionaries
from wenmai.text.tokens import estimate_tokens


async def load_lexicons(profiles: Sequence[LoadedProfile], *, verifies: bool) -> list[Lexicon]:
    """The lexicon of each profile. Dictionaries and patterns load in a thread, or the first question would block."""
    lexicons = [Lexicon(each.profile.field_words) for each in profiles]
    loads: list[Callable[[], object]] = [load_dictionaries, *(partial(prepare, lexicon) for lexicon in lexicons)]
    if verifies:
        loads += [load_words, load_readings]
    for load in loads:
        await asyncio.to_thread(load)
    return lexicons


def turn_services(
    settings: Settings,
    profiles: Sequence[LoadedProfile],
    lexicon: Lexicon,
    documents: Documents,
    memory: Memory,
    evidence: EvidenceBase,
    models: Models,
    clock: Clock,
) -> Services:
    """What the steps of a turn use, for the personas of the first profile."""
    profile, model = profiles[0].profile, models.answering
    budgets = BudgetKeeper(profile.budgets, memory, clock)
    verifier = understanding = None
    if models.verifying is not None:
        verifier = ModelVerifier(models.verifying, settings.verifier_seconds)
    if model is not None and settings.understanding == "model":
        asking = StructuredModel(memory, budgets, model, settings.understanding_seconds)
        understanding = ModelUnderstanding(asking)
    return Services(
        memory=memory,
        evidence=evidence,
        personas=PersonaRegistry(documents, [persona for each in profiles for persona in each.profile.personas]),
        prompts=PromptRegistry(documents),
        suggestions=Suggestions(evidence, profile, lexicon),
        traces=TraceLedger(documents, clock, retention=memory.policy.retention),
        budgets=budgets,
        profile=profile,
        lexicon=lexicon,
        policy=TurnPolicy(
            memory_enabled=settings.memory_enabled,
            prompt_budget_tokens=settings.prompt_budget_tokens,
            default_language=settings.language,
        ),
        clock=clock,
        model=model,
        verifier=verifier,
        understanding=understanding,
        count_tokens=model.count_tokens if model else estimate_tokens,
    )


def further_services(
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


def queries_of(profiles: Sequence[LoadedProfile]) -> Queries:
    """Of the first profile that has the persona that they name."""
    for _, profile in profiles:
        if profile.queries.persona in {persona.persona_id for persona in profile.personas}:
            return profile.queries
    return profiles[0].profile.queries
