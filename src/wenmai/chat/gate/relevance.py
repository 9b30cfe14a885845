"""Which sentence of the evidence speaks of what a question asks.

A year in a passage answers *when was the hall built* only if it stands where the building of the hall is
spoken of, and not beside the flood or the bridge. What happened is compared by groups of synonyms, what it
happened to by the thing that the clause is about; where neither is known, shared words decide.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from wenmai.chat.gate.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.counts import GENERATIONS, asked_units, ordinals
from wenmai.chat.gate.vocabulary import DEEDS, PEOPLE, THING, WHEREABOUTS
from wenmai.chat.intent import Focus
from wenmai.text.cjk import content_words, has_cjk, query_terms, sentences, terms

_CLAUSE = re.compile(r"[^，,；;：:。！？!?]+")
_LINK_ZH = re.compile(r"^(?:[的前后旁边里中内外侧东西南北上下口脚头]|附近|对面)")
_LINK_EN = re.compile(
    r"(?i)^\W*(?:in|near|beside|of|by|at|behind|before|opposite|next|outside|inside|across|under|"
    r"above|on|to)\b[^,]{0,24}$"
)
_PART = frozenset("前后头首另又再")
_ASIDE = re.compile(
    r"(?:多少|几)[\u4e00-\u9fff]?|年份|年代|时间|时候|日期|地方|位置|名字|数量|朝代|"
    r"哪一?[年天位里儿个]|何[时年人地处]|什么|是谁|谁"
    r"|\b(?:years?|dates?|days?|times?|centur(?:y|ies)|persons?|people|places?|names?|long|much|"
    r"old|many|far|called)\b",
    re.IGNORECASE,
)
_BOTH = frozenset({"build", "rebuild"})


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a question asks, as far as a sentence can be compared with it.

    Attributes:
        terms: its content words, as the index would have them.
        deeds: what happened, by group of :data:`~wenmai.chat.gate.vocabulary.DEEDS`.
        things: what it happened to, by group of :data:`~wenmai.chat.gate.vocabulary.THING`.
        units: the units that a count may be given in; empty if any will do.
        ordinals: the places in a list that it asks about.
        names: the names that a passage must hold to be about the same thing.
        rest: the content words that are neither names nor things nor words of asking.
    """

    terms: frozenset[str]
    deeds: frozenset[str]
    things: frozenset[str]
    units: frozenset[str]
    ordinals: frozenset[int]
    names: tuple[Claim, ...]
    rest: tuple[str, ...]


def understood(question: str) -> Asked:
    """What a question (completed from the talk, if need be) asks."""
    found = deeds(question)
    if re.search(r"修(?![建筑谱订改养])", question) and found & _BOTH:
        found |= _BOTH  # 修 is to build and to repair
    heads = _heads(question)
    names = [claim for claim in find_claims(question) if claim.kind in NAMES]
    things = frozenset(name for name, _, _ in heads)
    own = [claim for claim in names if any(claim.start <= start < claim.end for _, start, _ in heads)]
    rest = THING.sub(" ", _blank(question, [(each.start, each.end) for each in names]))
    people = [claim for claim in names if claim.kind is ClaimKind.PERSON and not claim.value.endswith("氏")]
    return Asked(
        terms=frozenset(query_terms(question)),
        deeds=found,
        things=things,
        units=asked_units(question),
        ordinals=frozenset(ordinals(question)),
        names=tuple(own if heads else people),
        rest=tuple(content_words(_ASIDE.sub(" ", rest))),
    )


def deeds(text: str) -> frozenset[str]:
    """The groups of deeds that a text speaks of; a rebuilding is no building."""
    found: set[str] = set()
    for name, pattern in DEEDS.items():
        text, count = pattern.subn(lambda match: "\x00" * len(match[0]), text)
        if count:
            found.add(name)
    return frozenset(found)


def answering(
    asked: Asked, focus: Focus, title: str, text: Sequence[str]
) -> list[tuple[str, tuple[Claim, ...]]]:
    """The sentences that answer a question of a focus, each with the claims in it that do.

    Args:
        asked: the question.
        focus: the kind of answer that is asked for.
        title: the passage's title.
        text: its quotable sentences, in order.
    """
    found: list[tuple[str, tuple[Claim, ...]]] = []
    topic = _first_thing(title)
    for sentence in text:
        if _is_about(asked, sentence, title, topic):
            claims = _answers(asked, focus, sentence)
            if claims is not None:
                found.append((sentence, claims))
        topic = _first_thing(sentence) or topic
    direct = [answer for answer in found if asked.things & {name for name, _, _ in _heads(answer[0])}]
    return direct or found


def overlap(asked: Asked, sentence: str) -> float:
    """The share of the question's content words that a sentence holds, 0 to 1."""
    return len(asked.terms.intersection(terms(sentence))) / len(asked.terms) if asked.terms else 0.0


def spans(text: str) -> list[tuple[int, int]]:
    """Where the sentences of a text begin and end."""
    found: list[tuple[int, int]] = []
    position = 0
    for sentence in sentences(text):
        position = text.index(sentence, position)
        found.append((position, position + len(sentence)))
        position += len(sentence)
    return found


def clauses(sentence: str) -> list[tuple[int, int]]:
    """Where the clauses of a sentence begin and end, their punctuation left out."""
    return [match.span() for match in _CLAUSE.finditer(sentence)]


def _heads(text: str) -> list[tuple[str, int, int]]:
    """The things a text is about: 桥 in 祠堂前的桥, the first in ``the bridge in front of the hall``."""
    found = [(str(match.lastgroup), *match.span()) for match in THING.finditer(text)]
    dropped: set[int] = set()
    chinese = has_cjk(text)
    for index, ((_, _, end), (_, start, _)) in enumerate(pairwise(found)):
        between = text[end:start]
        if chinese and (not between or _LINK_ZH.match(between)):
            dropped.add(index)
        elif not chinese and _LINK_EN.match(between):
            dropped.add(index + 1)
    return [head for index, head in enumerate(found) if index not in dropped]


def _blank(text: str, parts: Sequence[tuple[int, int]]) -> str:
    for start, end in parts:
        text = text[:start] + " " * (end - start) + text[end:]
    return text


def _first_thing(text: str) -> str:
    heads = _heads(text)
    return heads[0][0] if heads else ""


def _is_about(asked: Asked, sentence: str, title: str, topic: str) -> bool:
    """Whether a sentence speaks of what happened to the thing asked about.

    ``topic`` is what the passage was about before it, for a sentence that names nothing itself.
    """
    if asked.deeds:
        return bool(asked.deeds & deeds(sentence)) and _is_done_to(asked, sentence, title, topic)
    if asked.rest and not any(_says(piece, f"{title} {sentence}") for piece in asked.rest):
        return False
    heads = {name for name, _, _ in _heads(sentence)}
    if asked.things:
        return bool(heads & asked.things) or (not heads and topic in asked.things)
    return _shares_words(asked, sentence, title)


def _is_done_to(asked: Asked, sentence: str, title: str, topic: str) -> bool:
    if not asked.things:
        return _shares_words(asked, sentence, title)
    first = _first_thing(sentence) or topic
    return any(
        _clause_subject(asked, sentence[start:end], first)
        for start, end in clauses(sentence)
        if asked.deeds & deeds(sentence[start:end])
    )


def _shares_words(asked: Asked, sentence: str, title: str) -> bool:
    return not asked.terms or not asked.terms.isdisjoint([*terms(sentence), *terms(title)])


def _says(piece: str, text: str) -> bool:
    """Whether a text holds a word: a Latin one by its stem, a Chinese one by most of its characters."""
    if not has_cjk(piece):
        return not set(query_terms(piece)).isdisjoint(terms(text))
    return 2 * sum(char in text for char in piece) > len(piece)


def _clause_subject(asked: Asked, clause: str, otherwise: str) -> bool:
    """Whether what is done in a clause is done to the thing asked about."""
    begins = [match.start() for name in asked.deeds for match in DEEDS[name].finditer(clause)]
    heads = _heads(clause)
    before = {name for name, start, _ in heads if start < max(begins)}
    after = [name for name, start, _ in heads if start >= min(begins)]
    if before:
        return bool(before & asked.things)
    if after:
        return after[0] in asked.things
    return otherwise in asked.things


def _answers(asked: Asked, focus: Focus, sentence: str) -> tuple[Claim, ...] | None:
    """The claims of a sentence that answer; None if nothing does. *Who* and *where* may do without a name."""
    claims = find_claims(sentence)
    if focus is Focus.WHEN:
        return (
            tuple(claim for claim in claims if claim.kind in TIMES and _beside_deed(asked, sentence, claim))
            or None
        )
    if focus is Focus.HOW_MANY:
        return tuple(claim for claim in claims if _counts(asked.units, claim, sentence)) or None
    if focus is Focus.WHO:
        people = tuple(
            claim for claim in claims if claim.kind is ClaimKind.PERSON and not claim.value.endswith("氏")
        )
        return people if people or PEOPLE.search(sentence) else None
    named = {claim.value for claim in asked.names}
    places = tuple(claim for claim in claims if claim.kind is ClaimKind.PLACE and claim.value not in named)
    return places if places or WHEREABOUTS.search(sentence) else None


def _beside_deed(asked: Asked, sentence: str, claim: Claim) -> bool:
    """Whether the clause of a time speaks of what was asked, or of nothing else."""
    if not asked.deeds:
        return True
    start, end = next(
        ((start, end) for start, end in clauses(sentence) if start <= claim.start < end), (0, len(sentence))
    )
    done = deeds(sentence[start:end])
    return not done or bool(done & asked.deeds)


def _counts(units: frozenset[str], claim: Claim, sentence: str) -> bool:
    """Whether a claim counts in the unit asked for; 前两次 counts a part and not the whole."""
    if claim.kind is ClaimKind.GENERATION or GENERATIONS in units:
        return claim.kind is ClaimKind.GENERATION and GENERATIONS in units
    if claim.kind is not ClaimKind.NUMBER or claim.value.startswith("#"):
        return False
    if sentence[claim.start - 1 : claim.start] in _PART and claim.start:
        return False
    return not units or claim.value.partition(" ")[2] in units | {""}
