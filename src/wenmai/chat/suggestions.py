"""Suggested questions: those that the persona answers from the evidence, checked once per state of the evidence."""

import asyncio
import time
from collections.abc import Sequence
from contextvars import Context

from wenmai.chat.persona import ActivePersona
from wenmai.chat.understanding.dialogue_acts import classify
from wenmai.config.profile import Profile
from wenmai.errors import StoreUnavailable
from wenmai.grounding.answerability import check_answerability
from wenmai.grounding.evidence import EvidenceBase
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.policy import merge_policies
from wenmai.grounding.types import DialogueAct, PolicyMode
from wenmai.scope import Scope

FRESH_SECONDS = 600.0
"""After this time a question is checked again, because other processes may have changed the evidence."""

_MOST_KEPT = 4096

_Key = tuple[str, str, int, str, int, tuple[str, ...], str, str]


class Suggestions:
    """Picks suggested questions.

    A check costs a search without a model. Its result is kept in this process, by site, evidence, persona's version and
    language, so that a turn rarely needs one.

    Args:
        evidence: searched for each question.
        profile: its intents, policies and forbidden topics.
        lexicon: the words of the field.
    """

    def __init__(self, evidence: EvidenceBase, profile: Profile, lexicon: Lexicon) -> None:
        self._evidence = evidence
        self._profile = profile
        self._lexicon = lexicon
        self._checked: dict[_Key, tuple[bool, float]] = {}

    async def pick(
        self, scope: Scope, active: ActivePersona, language: str, offered: Sequence[str], limit: int
    ) -> list[str]:
        """The first questions that the persona answers; fewer while the evidence cannot be searched."""
        picked: list[str] = []
        for question in offered:
            if len(picked) == limit:
                break
            try:
                if await self._is_answered(scope, active, language, question):
                    picked.append(question)
            except StoreUnavailable:
                break
        return picked

    async def _is_answered(self, scope: Scope, active: ActivePersona, language: str, question: str) -> bool:
        changes = self._evidence.changes(scope)
        persona = active.persona
        domains = tuple(persona.domains)  # of the user's role
        key = (scope.tenant_id, scope.site_id, changes, persona.persona_id, active.version, domains, language, question)
        answered, until = self._checked.get(key, (False, 0.0))
        if time.monotonic() < until:
            return answered
        # In a context of its own: a failing embedder does not make the turn degraded, whose answer did not need it.
        checking = asyncio.create_task(self._check(scope, active, language, question), context=Context())
        answered = await checking
        self._checked.pop(key, None)
        while len(self._checked) >= _MOST_KEPT:
            del self._checked[next(iter(self._checked))]
        self._checked[key] = answered, time.monotonic() + FRESH_SECONDS
        return answered

    async def _check(self, scope: Scope, active: ActivePersona, language: str, question: str) -> bool:
        """Whether the question, asked at the start of a conversation, gets an answer."""
        persona, profile = active.persona, self._profile
        understanding = classify(question, words=profile.intents, in_conversation=False, lexicon=self._lexicon)
        if understanding.dialogue_act is not DialogueAct.FACT_SEEKING:
            return False
        found = await self._evidence.find(scope, question, domains=persona.domains, language=language)
        verdict = check_answerability(
            question,
            understanding.dialogue_act,
            found.passages,
            merge_policies(profile.policy, persona.policy, profile.intent_policy.get(understanding.dialogue_act, {})),
            profile.forbidden,
            known=list(persona.name.values()),
            lexicon=self._lexicon,
        )
        return verdict.mode is PolicyMode.NORMAL
