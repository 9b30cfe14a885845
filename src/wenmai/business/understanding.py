"""What a message says in the words of business rules: intent, domains, objects with their stages, customer."""

import re
from collections.abc import Mapping, Sequence

import msgspec

from wenmai.business.rules import BusinessRules
from wenmai.business.words import Mention, RuleWords, plain
from wenmai.text.folding import fold
from wenmai.text.patterns import NEVER
from wenmai.text.redact import redact
from wenmai.text.stopwords import STOP_EN, STOP_ZH

_PLACE = "\ue000"
"""Stands for a customer while words are searched for; a private character, removed from texts."""

_NEGATION = re.compile(
    r"(?:(?<!是)不是(?:说|问|指|在问|要问)?|而不是|并非|而非|(?<!要)不要|(?<!用)不用"
    r"|(?<![分特个区级类差识派告辨鉴])别(?![的人处])|不说|不问|不谈"
    r"|\b(?:not|instead of|rather than|don't mean|isn't|never mind)\b)(?:的|关于|这个|那个|about|the|an?|\s)*\Z"
)
_NOT_YET = re.compile(r"(?:没有?|未|\bnot(?: yet)?|\bwithout)\s*\Z")
_RHETORICAL = re.compile(r"[^。.!！;；\n]{0,40}?(?:[吗嘛]|么(?=\W|\Z))\s*[?？]?")
_BREAK = re.compile(r"[,，;；。.?？!！\n]")
_JOINED = re.compile(r"\s*(?:[、,，&和与跟及或]|以及|或者|还是|\band\b|\bor\b)?\s*(?:the|an?)?\s*")
_NEXT = re.compile(
    r"下一个?(?:[步布部]|阶段|环节|步骤)|接下来|[然之]后呢"
    r"|\bnext (?:step|stage)\b|\bwhat(?:'s| is)? (?:comes )?next\b|\bthen what\b"
)
_PREVIOUS = re.compile(
    r"[上前]一个?(?:[步布部]|阶段|环节|步骤)|[前上]面那一?步"
    r"|\b(?:previous|last|prior) (?:step|stage)\b|\b(?:step|stage) before\b"
)
_THEN = (
    r"(?:再?然|再?之|再?往|再?以)后|(?:再?接|跟)着|再?往下|后[面续]|(?:[办做弄搞]完|完)了?(?:之?后|以后)|[办做弄搞]完了?(?=[呢?？])"
    r"|after (?:that|this)|what comes after(?: that| this)?|what (?:do|should|shall|can) (?:i|we) do next|next"
)
"""What means the next step in a message that says nothing else."""
_ONLY_STEP = re.compile(
    r"(?:(?:那么?|请问|然后|接着|好的?|[嗯哦]|and|so|ok|what(?: is|'s)?|the)[,，\s]*){0,4}(?:再?往下?|再)?"
    rf"(?:{_NEXT.pattern}|{_PREVIOUS.pattern}|(?P<then>{_THEN}))"
    r"(?:[呢嘞哩呀啊]|[就又还]?[是该要]?(?:什么|啥|哪个|怎么[办做走弄搞样]?|做什么|干[什嘛啥]么?|如何|到哪|去哪|找谁)[了呢呀啊]?)?[\s?？!！。.]*"
)
_ASKING = re.compile(
    r"(?:[那这][个么]?|它|然后|接着|接下来|之后|请问|我?(?:想|要)?[问说指](?:一?下|的是)|而?不?是|该|要"
    r"|[怎咋]么?(?:[样办做弄走]|操作|办理|处理)?|如何(?:[办做]|操作|办理|处理)?"
    r"|(?:我?[说问打搞弄写]?错了?|不对|抱歉|对不起)|[呢啊呀吧吗的哦嗯好]"
    r"|how (?:do|can|to|about)|what about|about|and|so|ok(?:ay)?|then|please|the|an?|we|i mean(?:t)?|i"
    r"|sorry|wrong|not?|but|rather|instead|\W)*+"
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
        says_more: whether it says something beside words of the rules and words that only ask.
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
    says_more: bool = False
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
        ``current_object`` is another and the message says little else: 那放款呢, but not 怎么撤销放款. Traditional
        characters, full width and case do not matter. Negated words (不是押品, *not the collateral*) do not count, nor
        stages that are not reached (没入库) beside another; of several intents the one with most characters counts,
        question words as one; of several customers the last.
        """
        text = text[:MAX_TEXT]
        replaced, customers, written = self._replace_customers(text)
        normal = plain(replaced)
        found = self._words.find(normal)
        found = _with_misspelt(found, self._words.find_misspelt(normal))
        found = _with_alike(found, self._words.find_alike(normal))
        ambiguous = _ambiguous_spans(found)
        says_more = _ASKING.fullmatch(_without(normal, found)) is None
        anaphoric = _ANAPHOR.search(normal.strip()) is not None
        found = _disambiguated(found, ambiguous, current_object, elliptic=anaphoric or not says_more)
        found = [mention for mention in found if not _asks_for_a_view(normal, mention)]
        found = _without_open_stages(normal, found)
        rejected = [mention for mention in found if _is_negated(normal, mention)]
        kept = [mention for mention in found if mention not in rejected]
        objects = _objects(normal, kept)
        named_stage = any(each.stage for each in objects)
        customer = _last_customer(normal, customers)
        only_step = _ONLY_STEP.fullmatch(normal.strip())
        named = [mention for mention in kept if mention.kind in ("object", "stage")]
        return Recognized(
            intent=_intent(self.rules, kept),
            domains=_names(kept, "domain"),
            customer=customer,
            objects=objects,
            stages=_names(kept, "stage"),
            step=0 if named_stage else _step(normal, only_step),
            only_step=not named_stage and only_step is not None,
            only_names=bool(named or customer)
            and len(_names(kept, "stage")) <= 1
            and _ASKING.fullmatch(_without(normal, [*named, *rejected])) is not None,
            says_more=says_more,
            aliases={each.word: each.name for each in named if each.word != each.name}
            | dict.fromkeys([*written, *(_rejection(normal, each) for each in rejected)], ""),
            rejected=[name for name in _names(rejected, "object") if name not in _names(kept, "object")],
            anaphoric=anaphoric,
            ambiguous=bool(ambiguous),
            matched=list(dict.fromkeys(mention.word for mention in found))[:MAX_MATCHED] + [customer] * bool(customer),
            text=redact(" ".join(text.split()))[:LAST_ACTION],
        )

    def _replace_customers(self, text: str) -> tuple[str, list[str], list[str]]:
        """The text with each customer replaced by a placeholder; the customers in order, and as they are written."""
        text = text.replace(_PLACE, " ")
        found = [*self._customers.finditer(fold(text))]
        named = [text[slice(*match.span(match.lastindex or 0))].strip() for match in found]
        starts, ends = [match.start() for match in found], [match.end() for match in found]
        between = [text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True)]
        return _PLACE.join(between), named, [plain(match[0]) for match in found]


def _step(text: str, only_step: re.Match[str] | None) -> int:
    """The step that a text asks for: 1 for the next, -1 for the one before, else 0."""
    if _NEXT.search(text) or (only_step and only_step["then"]):
        return 1
    return -1 if _PREVIOUS.search(text) else 0


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
    covered = [each for each in found for wrong in misspelt if wrong.start <= each.start and each.end <= wrong.end]
    return sorted([*(mention for mention in found if mention not in covered), *misspelt])


def _asks_for_a_view(text: str, mention: Mention) -> bool:
    """Whether a question word of an intent asks what becomes of something (会怎样, 怎么样), not how it is done."""
    asks = mention.kind == "intent" and mention.word in _ONLY_ASKING
    return asks and (text.startswith("样", mention.end) or text.endswith("会", 0, mention.start))


def _without_open_stages(text: str, found: Sequence[Mention]) -> list[Mention]:
    """Without the stages that are not reached yet (没入库), if another one is named (能放款吗)."""
    open_ = [each for each in found if each.kind == "stage" and _NOT_YET.search(text, 0, each.start)]
    reached = {each.name for each in found if each.kind == "stage"} - {each.name for each in open_}
    return [each for each in found if each not in open_] if reached else [*found]


def _with_alike(found: Sequence[Mention], alike: Sequence[Mention]) -> list[Mention]:
    """The mentions with words that only sound like objects or stages, where none of that kind is spelt right."""
    kinds = {mention.kind for mention in found}
    added = [
        mention
        for mention in alike
        if mention.kind not in kinds
        and not any(each.start < mention.end and mention.start < each.end for each in found)
    ]
    return sorted([*found, *added]) if added else [*found]


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


def _disambiguated(
    found: Sequence[Mention], both: set[tuple[int, int]], current_object: str, *, elliptic: bool
) -> list[Mention]:
    if not both:
        return list(found)
    certain = [mention for mention in found if (mention.start, mention.end) not in both]
    others = _names(certain, "object")
    is_stage = bool(others) or (
        elliptic
        and not _names(certain, "stage")
        and current_object not in ("", *_names(_within(found, both), "object"))
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
