"""A profile: the settings, personas, intents, policies and sample evidence of one kind of application.

It is one YAML file, ``profiles/<name>.yaml``; wording that visitors read is given in each language it offers.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from wenmai.errors import InvalidInput
from wenmai.providers.pricing import Price

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one in C reads a profile ten times faster; PyYAML has it wherever it was built with libyaml."""

Text = Annotated[dict[str, str], msgspec.Meta(min_length=1)]
"""A text in each language, keyed by its BCP 47 language subtag: ``zh``, ``en``."""

Phrases = Annotated[dict[str, list[str]], msgspec.Meta(min_length=1)]
"""Phrases in each language; one is chosen by the turn's number, so that an answer can be reproduced."""


def in_language(texts: Mapping[str, Any], language: str) -> Any:
    """The entry for a BCP 47 tag: the tag itself, its first subtag, Chinese, else whatever comes first."""
    for tag in (language, language.partition("-")[0], "zh"):
        if tag in texts:
            return texts[tag]
    return next(iter(texts.values()))


class Persona(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who answers.

    Attributes:
        system: what a model is told about who it is and how it speaks; never facts.
        greetings: answers to a greeting.
        openings: how an answer from evidence begins, when no model writes it.
        closings: how it ends; may be empty.
        conservative: said when the evidence is too thin; ``{topic}`` is what was asked about.
        refusals: said when the topic is forbidden.
        out_of_scope: said when the question is none of the persona's business.
        clarifications: asked when the question cannot be understood even with the talk so far.
        acknowledgements: said when the visitor states a wish about the talk itself.
        followups: questions that the visitor may like to ask next, by evidence domain; ``""`` for any.
        domains: evidence domains that the persona speaks about; empty means all.
        policy: overrides of the gate's defaults, see :mod:`wenmai.chat.gate.policy`.
    """

    npc_id: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9_.:-]{1,128}$")]
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
    followups: dict[str, Phrases] = {}
    domains: list[str] = []
    policy: dict[str, Any] = {}


class Topic(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A topic that may not be talked about, known by its words (Latin ones match whole words)."""

    name: str
    words: list[str]


class Budget(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may be spent on models, in US dollars, in tokens of prompts and answers together, or both.

    Attributes:
        hard: with nothing left, no model is called any more; if it is soft, there is a warning and no more.
    """

    cost_usd: Annotated[float, msgspec.Meta(gt=0)] | None = None
    tokens: Annotated[int, msgspec.Meta(ge=1)] | None = None
    hard: bool = False

    def __post_init__(self) -> None:
        if self.cost_usd is None and self.tokens is None:
            raise ValueError("a budget needs `cost_usd`, `tokens` or both")


class Budgets(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Budgets of a session for all of its life, and of a user and a tenant for a day, UTC; None is no budget."""

    session: Budget | None = None
    user_day: Budget | None = None
    tenant_day: Budget | None = None

    @property
    def in_dollars(self) -> list[str]:
        """The names of those that limit cost."""
        return [name for name in self.__struct_fields__ if (budget := getattr(self, name)) and budget.cost_usd]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module's docstring.

    Attributes:
        settings: defaults of :class:`wenmai.settings.Settings` keys; environment and flags beat them.
        intents: for each intent, the words and phrases that show it (Latin ones match whole words).
        forbidden: topics that are refused.
        policy: overrides of the gate's defaults for the whole site.
        intent_policy: overrides for one intent; they beat the persona's.
        evidence: files of sample evidence, relative to the profile's file.
        prices: the price of each model, by the name of the setting ``model``.
        budgets: what may be spent on models.
        topic_words: words that name what the evidence is about; rewriting carries them from turn to turn and
            inference counts them as interests.
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
    topic_words: list[str] = []


def load_profile(path: Path) -> Profile:
    """Read and validate a profile file.

    Raises:
        InvalidInput: the file is missing, is not YAML, or a key is unknown or of the wrong type; the error names
            the key.
    """
    try:
        raw = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)  # noqa: S506 — either is a safe one
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as problem:
        raise InvalidInput("profile", str(path), f"a readable YAML file: {problem}") from problem
    try:
        return msgspec.convert(raw, Profile)
    except msgspec.ValidationError as problem:
        raise InvalidInput("profile", str(path), f"a valid profile: {problem}") from problem
