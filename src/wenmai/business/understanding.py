"""What a message says in the words of business rules: intent, domains, objects with their stages, customer."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from wenmai.business.rules import BusinessRules
from wenmai.business.words import Mention, RuleWords, plain
from wenmai.text.patterns import NEVER
from wenmai.text.redact import redact
from wenmai.text.stopwords import STOP_EN, STOP_ZH

_PLACE = "\ue000"
"""Stands for a customer while words are searched for; a private character, removed from texts."""

_NEGATION = re.compile(
    r"(?:(?<!是)不是(?:说|问|指|在问|要问)?|而不是|并非|而非|不要|不用|别|不说|不问|不谈"
    r"|\b(?:not|instead of|rather than|don't mean|isn't|never mind)\b)(?:的|关于|这个|那个|about|the|an?|\s)*\Z"
)
_RHETORICAL = re.compile(r"[^。.!！;；\n]{0,40}?(?:[吗嘛]|么(?=\W|\Z))\s*[?？]?")
_BREAK = re.compile(r"[,，;；。.?？!！\n]")
_JOINED = re.compile(r"\s*(?:[、,，&和与跟及或]|以及|或者|还是|\band\b|\bor\b)?\s*(?:the|an?)?\s*")
_NEXT = re.compile(
    r"下一个?(?:步|阶段|环节|步骤)|接下来|[然之]后呢"
    r"|\bnext (?:step|stage)\b|\bwhat(?:'s| is)? (?:comes )?next\b|\bthen what\b"
)
_PREVIOUS = re.compile(r"[上前]一个?(?:步|阶段|环节|步骤)|\b(?:previous|last|prior) (?:step|stage)\b")
_ONLY_STEP = re.compile(
    rf"(?:那么?|请问|and |so |ok )?[,，\s]*再?(?:{_NEXT.pattern}|{_PREVIOUS.pattern})"
    r"(?:呢|[该要]?(?:是什么|怎么办|怎么做|做什么|如何))?[\s?？!！。.]*"
)
_ASKING = re.compile(
    r"(?:[那这][个么]?|它|然后|接着|接下来|之后|请问|我?(?:想|要)?[问说指](?:一?下|的是)|而?不?是|该|要"
    r"|[怎咋]么?(?:[样办做弄走]|操作|办理|处理)?|如何(?:[办做]|操作|办理|处理)?"
    r"|(?:我?[说问打]?错了?|抱歉|对不起)|[呢啊呀吧吗的哦嗯好]"
    r"|how (?:do|can|to|about)|what about|about|and|so|ok(?:ay)?|then|please|the|an?|we|i|\W)*+"
)
"""All of a message that, beside names, only asks about them."""

_ONLY_ASKING = STOP_ZH | STOP_EN
"""Words such as 怎么 and *how*: beside another word of an intent they say little."""

_ANAPHOR = re.compile(
    r"它|^那|[这那](?:个|些|一)|该|呢\W*\Z"
    r"|\b(?:it|its|they|them|that|this|those|these)\b|^(?:and|what about|how about)\b"
)

MAX_TEXT, LAST_ACTION, MAX_MATCHED = 1_000, 100, 12
"""Characters of a message that are searched; of it that are kept; and the most words that are recorded."""


class MentionedObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that a message names, with the stage that it names for it; either may be empty."""

    name: str = ""
    stage: str = ""


class Recognized(msgspec.Struct, frozen=True, kw_only=True):
    """What a message says; empty for what it does not name.

    Attributes:
        objects: in the order of the message; one without a name if only a stage is named.
        stages: all that it names, in order.
        step: 1 for the next stage, -1 for the one before, if no stage is named.
        only_step: whether it asks for that stage and for nothing else.
        only_names: whether it asks about objects, customers and at most one stage, and says nothing else of them.
        aliases: the words for objects and stages that are not the rules' names, as written but normalised, each with
            the name; customers, and what the user said not to mean, with an empty one.
        rejected: objects that the user said not to mean.
        anaphoric: whether it refers to what was said before (它, 那 … 呢, it).
        ambiguous: whether it has a word of both an object and a stage, which the current object may decide.
        matched: the words that were recognized, as written but normalised.
        text: its beginning.
    """

    intent: str = ""
    domains: list[str] = []
    customer: str = ""
    objects: list[MentionedObject] = []
    stages: list[str] = []
    step: int = 0
    only_step: bool = False
    only_names: bool = False
    aliases: dict[str, str] = {}
    rejected: list[str] = []
    anaphoric: bool = False
    ambiguous: bool = False
    matched: list[str] = []
    text: str = ""

    @property
    def named(self) -> bool:
        """Whether anything was named that can change a state."""
        return bool(self.intent or self.domains or self.customer or self.objects or self.step)


class Vocabulary:
    """Business rules, prepared for understanding messages."""

    def __init__(self, rules: BusinessRules) -> None:
        self.rules: BusinessRules = rules
        self._words = RuleWords(rules)
        self._customers = re.compile("|".join(f"(?:{pattern})" for pattern in rules.customers) or NEVER)

    def understand(self, text: str, *, current_object: str = "") -> Recognized:
        """What a message says, by the rules' words alone.

        A word of both an object and a stage is the stage if another object is named or, without another stage,
        ``current_object`` is another. Traditional characters, full width and case do not matter. Negated words
        (不是押品, *not the collateral*) do not count; of several intents the one with most characters counts,
        question words as one; of several customers the last.
        """
        text = text[:MAX_TEXT]
        replaced, customers, written = self._replace_customers(text)
        normal = plain(replaced)
        found = self._words.find(normal)
        found = _with_misspelt(found, self._words.find_misspelt(normal))
        ambiguous = _ambiguous_spans(found)
        found = _disambiguated(found, ambiguous, current_object)
        rejected = [mention for mention in found if _is_negated(normal, mention)]
        kept = [mention for mention in found if mention not in rejected]
        objects = _objects(normal, kept)
        named_stage = any(each.stage for each in objects)
        customer = _last_customer(normal, customers)
        named = [mention for mention in kept if mention.kind in ("object", "stage")]
        return Recognized(
            intent=_intent(self.rules, kept),
            domains=_names(kept, "domain"),
            customer=customer,
            objects=objects,
            stages=_names(kept, "stage"),
            step=0 if named_stage else 1 if _NEXT.search(normal) else -1 if _PREVIOUS.search(normal) else 0,
            only_step=not named_stage and _ONLY_STEP.fullmatch(normal.strip()) is not None,
            only_names=bool(named or customer)
            and len(_names(kept, "stage")) <= 1
            and _ASKING.fullmatch(_without(normal, [*named, *rejected])) is not None,
            aliases={each.word: each.name for each in named if each.word != each.name}
            | dict.fromkeys([*written, *(_rejection(normal, each) for each in rejected)], ""),
            rejected=[name for name in _names(rejected, "object") if name not in _names(kept, "object")],
            anaphoric=_ANAPHOR.search(normal.strip()) is not None,
            ambiguous=bool(ambiguous),
            matched=list(dict.fromkeys(mention.word for mention in found))[:MAX_MATCHED] + [customer] * bool(customer),
            text=redact(" ".join(text.split()))[:LAST_ACTION],
        )

    def _replace_customers(self, text: str) -> tuple[str, list[str], list[str]]:
        """The text with each customer replaced by a placeholder; the customers in order, and as they are written."""
        text = text.replace(_PLACE, " ")
        written = [plain(match[0]) for match in self._customers.finditer(text)]
        text = self._customers.sub(lambda match: f"{_PLACE}{match[match.lastindex or 0]}{_PLACE}", text)
        if _PLACE not in text:
            return text, [], []
        parts = text.split(_PLACE)
        return _PLACE.join(parts[::2]), [part.strip() for part in parts[1::2]], written


def _with_misspelt(found: Sequence[Mention], misspelt: Sequence[Mention]) -> list[Mention]:
    """The mentions with a misspelt object, if no object is spelt right but within that one."""
    objects = [mention for mention in found if mention.kind == "object"]
    inside = [
        mention
        for mention in objects
        for wrong in misspelt
        if mention.name == wrong.name and wrong.start <= mention.start and mention.end <= wrong.end
    ]
    if not misspelt or inside != objects:
        return [*found]
    return sorted([*(mention for mention in found if mention not in inside), *misspelt])


def _without(text: str, mentions: Sequence[Mention]) -> str:
    """The text with a space for each mention and each customer."""
    for mention in sorted(mentions, reverse=True):
        text = f"{text[: mention.start]} {text[mention.end :]}"
    return text.replace(_PLACE, " ").strip()


def in_own_words(text: str, aliases: Mapping[str, str]) -> str:
    """The text, normalised, in the rules' names: with those of :attr:`Recognized.aliases`, and without customers."""
    if not aliases:
        return plain(text)
    longest_first = sorted(aliases, key=len, reverse=True)
    words = re.compile("|".join(re.escape(word) + "的?" * (not aliases[word]) for word in longest_first))
    return words.sub(lambda match: aliases.get(match[0], ""), plain(text))


def _ambiguous_spans(found: Sequence[Mention]) -> set[tuple[int, int]]:
    """Where words of both an object and a stage stand."""
    objects, stages = ({each[:2] for each in found if each.kind == kind} for kind in ("object", "stage"))
    return objects & stages


def _disambiguated(found: Sequence[Mention], both: set[tuple[int, int]], current_object: str) -> list[Mention]:
    if not both:
        return list(found)
    certain = [mention for mention in found if (mention.start, mention.end) not in both]
    others = _names(certain, "object")
    is_stage = bool(others) or (
        not _names(certain, "stage") and current_object not in ("", *_names(_within(found, both), "object"))
    )
    drop = "object" if is_stage else "stage"
    return [mention for mention in found if (mention.start, mention.end) not in both or mention.kind != drop]


def _within(found: Sequence[Mention], spans: set[tuple[int, int]]) -> list[Mention]:
    return [mention for mention in found if (mention.start, mention.end) in spans]


def _names(found: Sequence[Mention], kind: str) -> list[str]:
    return list(dict.fromkeys(mention.name for mention in found if mention.kind == kind))


def _is_negated(text: str, mention: Mention) -> bool:
    """Whether a negation stands before the mention; not in a question that expects yes (不是押品吗)."""
    negation = _NEGATION.search(text, max(0, mention.start - 24), mention.start)
    return negation is not None and _RHETORICAL.match(text, mention.end) is None


def _rejection(text: str, mention: Mention) -> str:
    """A negated mention with its negation, as it stands in the text."""
    negation = _NEGATION.search(text, max(0, mention.start - 24), mention.start)
    return text[negation.start() if negation else mention.start : mention.end]


def _last_customer(text: str, customers: Sequence[str]) -> str:
    places = [match.start() for match in re.finditer(_PLACE, text)]
    named = [
        customer
        for start, customer in zip(places, customers, strict=True)
        if not _is_negated(text, Mention(start, start + 1, "customer", customer, customer))
    ]
    return named[-1] if named else ""


def _intent(rules: BusinessRules, found: Sequence[Mention]) -> str:
    weights = dict.fromkeys(rules.intents, 0)
    for mention in found:
        if mention.kind == "intent":
            weights[mention.name] += 1 if mention.word in _ONLY_ASKING else len(mention.word)
    best = max(weights, key=weights.__getitem__)
    return best if weights[best] else ""


def _objects(text: str, found: Sequence[Mention]) -> list[MentionedObject]:
    """The objects in order, each once, with the stage of its part of the message; of several stages the last.

    In an enumeration (押品和合同怎么创建) the objects share the stage.
    """
    objects = [mention for mention in found if mention.kind == "object"]
    stages = [mention for mention in found if mention.kind == "stage"]
    if not objects:
        return [MentionedObject(stage=stages[-1].name)] if stages else []
    if len(_names(objects, "object")) == 1:
        return [MentionedObject(name=objects[0].name, stage=stages[-1].name if stages else "")]
    named: list[str] = [""] * len(objects)
    for stage in stages:
        before = max((at for at, each in enumerate(objects) if each.start < stage.start), default=0)
        after = before + 1
        taken = bool(named[before]) and after < len(objects)
        if taken and not _BREAK.search(text, stage.end, objects[after].start):
            before = after
        named[before] = stage.name
    for step in (-1, 1):
        order = range(len(objects)) if step == 1 else range(len(objects) - 1, -1, -1)
        for at in order:
            source = at - step
            if not named[at] and 0 <= source < len(objects) and named[source]:
                left, right = sorted((objects[at], objects[source]))
                named[at] = named[source] if _JOINED.fullmatch(text, left.end, right.start) else ""
    last = {each.name: stage for each, stage in zip(objects, named, strict=True) if stage}
    return [MentionedObject(name=name, stage=last.get(name, "")) for name in _names(objects, "object")]
