"""A profile: the settings, personas, intents, policies and sample evidence of one kind of application.

It is one YAML file, ``profiles/<name>.yaml``, with its evidence and lexicon beside it. Texts that users read are given
in each language.
"""

from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import yaml

from wenmai.business.rules import BusinessRules
from wenmai.config.lexicon import LexiconWords
from wenmai.config.queries import Queries
from wenmai.config.texts import Phrases, Text
from wenmai.errors import InvalidInput
from wenmai.providers.pricing import Price

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C loader reads a profile ten times faster; PyYAML has it if it was built with libyaml."""


def _default_courtesies() -> dict[str, list[str]]:
    return {
        "zh": ["好的，还想知道什么，随时可以问。", "多谢。有想了解的，尽管说。"],
        "en": ["Of course; ask whenever there is something you would like to know.", "Thank you. Feel free to ask."],
    }


class Persona(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A persona: who answers.

    Attributes:
        system: system prompt: identity and manner of speaking; never facts.
        greetings: answers to a greeting.
        openings: openings of answers from evidence that no model writes.
        closings: closings of such answers; may be empty.
        conservative: answers when the evidence is insufficient; ``{topic}`` is the topic of the question.
        nearest: introduces the passage nearest to such a question, where the business state limits what it is about;
            without it none is quoted.
        refusals: answers to a forbidden topic.
        out_of_scope: answers to a question outside the persona's scope.
        clarifications: questions back when a question is unclear even with the conversation history.
        acknowledgements: answers to a wish about the conversation itself.
        courtesies: answers to thanks, a farewell, interest, a wish or small talk.
        followups: suggested follow-up questions, by evidence domain or stage of the business rules; ``""`` for any. In
            those of a stage ``{object}`` is the current object.
        domains: evidence domains that the persona may use; empty means all.
        policy: overrides of the grounding policy, see :mod:`wenmai.grounding.policy`.
    """

    persona_id: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:-]{1,128}$")] = msgspec.field(name="npc_id")
    name: Text
    summary: Text
    system: Text
    greetings: Phrases
    openings: Phrases
    closings: Phrases
    conservative: Phrases
    refusals: Phrases
    out_of_scope: Phrases
    clarifications: Phrases
    acknowledgements: Phrases
    nearest: Phrases | None = None
    courtesies: Phrases = msgspec.field(default_factory=_default_courtesies)
    followups: dict[str, Phrases] = {}
    domains: list[str] = []
    policy: dict[str, Any] = {}


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A forbidden topic, recognized by its words (Latin ones match whole words)."""

    name: str
    words: list[str]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A limit of model usage: in US dollars, in tokens of prompts and answers together, or both.

    Attributes:
        hard: when exhausted, no model is called; a soft budget only warns.
    """

    cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    hard: bool = False

    def __post_init__(self) -> None:
        if self.cost_usd is None and self.tokens is None:
            raise ValueError("a budget needs `cost_usd`, `tokens` or both")


class Budgets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Budgets of a session over its lifetime, and of a user and a tenant per day, UTC; None for no budget."""

    session: Budget | None = None
    user_day: Budget | None = None
    tenant_day: Budget | None = None

    @property
    def in_dollars(self) -> list[str]:
        """The names of the budgets that limit cost."""
        return [name for name in self.__struct_fields__ if (budget := getattr(self, name)) and budget.cost_usd]


class BlockShare(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The share of a block in what a prompt's budget leaves for memory.

    Attributes:
        weight: relative to those of the other blocks; 0 leaves the block out.
        limit: most tokens of the block.
    """

    weight: Annotated[float, msgspec.Meta(ge=0)]
    limit: Annotated[int, msgspec.Meta(ge=0)] | None = None


class TenantRetention(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Retention of a tenant, in days, where it differs from the settings."""

    session_days: Annotated[int, msgspec.Meta(ge=1)] | None = None
    trace_days: Annotated[int, msgspec.Meta(ge=1)] | None = None
    episode_days: Annotated[int, msgspec.Meta(ge=1)] | None = None


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module's docstring.

    Attributes:
        settings: defaults of :class:`wenmai.config.settings.Settings` keys; environment and flags override them.
        intents: for each intent, its words and phrases (Latin ones match whole words).
        forbidden: forbidden topics; questions about them are refused.
        policy: overrides of the grounding policy for the whole site.
        intent_policy: overrides for one intent; they take precedence over the persona's.
        evidence: sample evidence files, relative to the profile's file.
        prices: the price of each model, by its name as in the setting ``model``.
        budgets: limits of model usage.
        blocks: shares of the blocks of memory in a prompt, where they differ from the defaults.
        lexicon: the words of its field; in the file, a mapping or the name of a YAML file beside it.
        business: the rules of the business state, likewise; None recognizes nothing.
        queries: who answers questions that name no persona, and the roles of users.
        retention: of single tenants, by id.
    """

    name: str
    settings: dict[str, Any] = {}
    personas: list[Persona]
    intents: dict[str, list[str]] = {}
    forbidden: list[Topic] = []
    policy: dict[str, Any] = {}
    intent_policy: dict[str, dict[str, Any]] = {}
    evidence: list[str] = []
    prices: dict[str, Price] = {}
    budgets: Budgets = Budgets()
    blocks: dict[Literal["summary", "episodes", "history"], BlockShare] = {}
    lexicon: LexiconWords = LexiconWords()
    business: BusinessRules | None = None
    queries: Queries = Queries()
    retention: dict[str, TenantRetention] = {}

    @property
    def field_words(self) -> LexiconWords:
        """The lexicon, with the business rules' words of an object or a stage as synonyms."""
        if self.business is None:
            return self.lexicon
        named = {name: of.words for name, of in self.business.objects.items()} | self.business.stages
        groups = {f"rule_{number}": [name, *words] for number, (name, words) in enumerate(named.items()) if words}
        return msgspec.structs.replace(self.lexicon, synonyms=self.lexicon.synonyms | groups)


def load_profile(path: Path) -> Profile:
    """Read and validate a profile file.

    Raises:
        InvalidInput: the file is missing, is not YAML, or a key is unknown or has the wrong type; the error
            names the key.
    """
    raw = _read_yaml(path)
    if isinstance(raw, dict):
        named = {key: raw[key] for key in ("lexicon", "business") if isinstance(raw.get(key), str)}
        raw = raw | {key: _read_yaml(path.parent / name) for key, name in named.items()}
    try:
        return msgspec.convert(raw, Profile)
    except msgspec.ValidationError as problem:
        raise InvalidInput("profile", str(path), f"a valid profile: {problem}") from problem


def _read_yaml(path: Path) -> Any:
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InvalidInput("profile", str(path), f"a readable YAML file: {problem}") from problem


@lru_cache(maxsize=8)
def _parsed(text: str) -> Any:
    """The document, which must not be changed; a start reads the profile twice, for the settings and for the engine."""
    return yaml.load(text, Loader=_Loader)  # noqa: S506 — both loaders are safe
