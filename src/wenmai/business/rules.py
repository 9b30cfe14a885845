"""Business rules: the intents, domains, objects and stages of a field, and their words; data of a profile."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from wenmai.text.cjk import normalise

MAX_WORD = 64

Inherited = Literal["domain", "object", "stage"]
Word = Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_WORD)]
"""A name, or a word of it; Latin words match whole words, traditional characters match simplified ones."""


class IntentRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An intent.

    Attributes:
        words: of a message with this intent.
        domains: of an operation with this intent, unless the message or its object names others.
        inherits: what a message takes from the current operation of the same intent if it names no object.
    """

    words: list[Word] = []
    domains: list[str] = []
    inherits: tuple[Inherited, ...] = ("domain", "object", "stage")


class ObjectRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A business object; its name is one of its words.

    Attributes:
        words: other names of it.
        domains: of its operations, unless the message names others; empty for those of the intent.
        stages: those that it goes through, in the order of ``stages`` of the rules; None for all.
    """

    words: list[Word] = []
    domains: list[str] = []
    stages: list[str] | None = None


class BusinessRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """See the module's docstring.

    Attributes:
        intents: by name.
        default_intent: of a message that names none, if no operation is current; by default the first intent.
        domains: the words of each.
        objects: by name.
        stages: in the order in which an operation advances, with their words; the name is one of them.
        customers: regular expressions of a customer's id or name: the group, or else the whole match.
        filters: what of the current operation limits the search for passages: their ``domains``, and the object as
            one of their ``tags``.
    """

    intents: Annotated[dict[Word, IntentRule], msgspec.Meta(min_length=1)]
    default_intent: str = ""
    domains: dict[Word, list[Word]] = {}
    objects: dict[Word, ObjectRule] = {}
    stages: dict[Word, list[Word]] = {}
    customers: list[str] = []
    filters: list[Literal["domain", "object"]] = []

    def __post_init__(self) -> None:
        _check_names("default_intent", filter(None, [self.default_intent]), "intents", self.intents)
        for name, intent in self.intents.items():
            _check_names(f"intents.{name}.domains", intent.domains, "domains", self.domains)
        for name, of in self.objects.items():
            _check_names(f"objects.{name}.domains", of.domains, "domains", self.domains)
            _check_names(f"objects.{name}.stages", of.stages or [], "stages", self.stages)
            if of.stages is not None and of.stages != [stage for stage in self.stages if stage in of.stages]:
                raise ValueError(f"`objects.{name}.stages` must be in the order of `stages`, each once")
        _check_words("intents", {name: intent.words for name, intent in self.intents.items()})
        _check_words("domains", self.domains)
        _check_words("objects", {name: [name, *of.words] for name, of in self.objects.items()})
        _check_words("stages", {name: [name, *words] for name, words in self.stages.items()})
        for number, pattern in enumerate(self.customers):
            _check_pattern(f"customers[{number}]", pattern)

    @property
    def first_intent(self) -> str:
        """The intent of a message that names none, if no operation is current."""
        return self.default_intent or next(iter(self.intents))

    def stages_of(self, business_object: str) -> Sequence[str]:
        """The stages of an object in order; of an unknown one, or "", all of them."""
        of = self.objects.get(business_object)
        return [*self.stages] if of is None or of.stages is None else of.stages

    def stage_word(self, business_object: str, stage: str) -> str:
        """A word for the stage that says more than the object's name: of a stage of that name, another of its words."""
        words = self.stages.get(stage) if stage == business_object else None
        return words[0] if words else stage

    def domains_of(self, intent: str, business_object: str) -> list[str]:
        """The domains of an operation whose message names none."""
        of, rule = self.objects.get(business_object), self.intents.get(intent)
        return (of.domains if of else []) or (rule.domains if rule else [])


def _check_names(field: str, names: Iterable[str], of: str, declared: Mapping[str, object]) -> None:
    for name in names:
        if name not in declared:
            raise ValueError(f"`{field}` names `{name}`, which is not in `{of}`")


def _check_words(kind: str, words: Mapping[str, Sequence[str]]) -> None:
    owners: dict[str, str] = {}
    for name, own in words.items():
        for word in own:
            form = normalise(word)
            if not any(map(str.isalnum, form)):
                raise ValueError(f"`{kind}.{name}` has `{word}`, which is no word")
            if owners.setdefault(form, name) != name:
                raise ValueError(f"`{word}` is a word of both `{kind}.{owners[form]}` and `{kind}.{name}`")


def _check_pattern(field: str, pattern: str) -> None:
    try:
        compiled = re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"`{field}` is no regular expression: {problem}") from problem
    if compiled.groups > 1 or compiled.match(""):
        raise ValueError(f"`{field}` must match at least one character and have at most one group")
