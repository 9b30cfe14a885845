"""Relevance: which sentences of the evidence answer a question.

A year answers *when was the tower built* only in a clause about building the tower, not beside the flood or the lamp.
Events are matched by groups of synonyms, entities by the head of the clause; where neither is known, shared words
decide.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from wenmai.grounding.claims.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import GENERATIONS, expected_units
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.segments import Segment
from wenmai.grounding.support import bare_name
from wenmai.grounding.types import AnswerType
from wenmai.text.cjk import content_words, has_cjk, query_terms

_PARTIAL_COUNT = frozenset("前后头首另又再")
_QUESTION_WORDS = re.compile(
    r"(?:多少|几)(?:户人家|家人家|[\u4e00-\u9fff])?|(?<=[村族镇乡县家])[里中内]|年份|年代|时间|时候|日期|地方|位置|名字|数量|朝代|"
    r"哪一?[年天位里儿个]|何[时年人地处]|什么|是谁|谁"
    r"|\b(?:years?|dates?|days?|times?|centur(?:y|ies)|persons?|people|places?|names?|long|much|"
    r"old|many|far|called)\b",
    re.IGNORECASE,
)
_TO_BUILD_OR_REPAIR = re.compile(r"修(?![建筑谱订改养])")
_BOTH = frozenset({"build", "rebuild"})
_MAX_NAMES = 20
"""Names of a question that passages are compared with."""


class QuestionTarget(msgspec.Struct, frozen=True, kw_only=True):
    """What a question asks for, in the form in which sentences are compared with it.

    Attributes:
        terms: its content words, as index terms.
        events: groups of the lexicon.
        entities: kinds of the lexicon.
        units: accepted units of a count; empty accepts all.
        ordinals: the list positions that it asks about.
        names: the names that a passage must contain.
        keywords: the content words that are neither names nor entities nor question words.
    """

    terms: frozenset[str]
    events: frozenset[str]
    entities: frozenset[str]
    units: frozenset[str]
    ordinals: frozenset[int]
    names: tuple[Claim, ...]
    keywords: tuple[str, ...]


@lru_cache(maxsize=64)
def parse_target(question: str, lexicon: Lexicon = EMPTY) -> QuestionTarget:
    """Parse a question, rewritten with context if need be."""
    segment = Segment(question, lexicon=lexicon)
    events = segment.events
    if events & _BOTH and _TO_BUILD_OR_REPAIR.search(question):
        events |= _BOTH
    names = [claim for claim in segment.claims if claim.kind in NAMES]
    entity_names = [claim for claim in names if segment.heads_in(claim)]
    people = [claim for claim in names if claim.kind is ClaimKind.PERSON and not _is_surname(claim)]
    keywords = lexicon.entities.sub(" ", _blank_out(question, names))
    return QuestionTarget(
        terms=frozenset(query_terms(question)),
        events=events,
        entities=segment.entities,
        units=expected_units(question, lexicon),
        ordinals=segment.ordinals,
        names=tuple(entity_names if segment.heads else people)[:_MAX_NAMES],
        keywords=tuple(content_words(_QUESTION_WORDS.sub(" ", keywords))),
    )


def find_answers(
    target: QuestionTarget, answer_type: AnswerType, title: Segment, sentences: Sequence[Segment]
) -> list[tuple[Segment, tuple[Claim, ...]]]:
    """The sentences that answer a question, each with its answering claims.

    Args:
        target: the parsed question.
        answer_type: the expected kind of answer.
        title: the passage's title.
        sentences: the passage's sentences that may be quoted, in order.
    """
    found: list[tuple[Segment, tuple[Claim, ...]]] = []
    topic = _first_entity(title)
    for sentence in sentences:
        if _is_about(target, sentence, title, topic):
            claims = _answer_claims(target, answer_type, sentence)
            if claims is not None:
                found.append((sentence, claims))
        topic = _first_entity(sentence) or topic
    direct = [answer for answer in found if target.entities & answer[0].entities]
    return direct or found


def overlap(target: QuestionTarget, sentence: Segment) -> float:
    """The share of the question's content words that a sentence contains, 0 to 1."""
    return len(target.terms & sentence.terms) / len(target.terms) if target.terms else 0.0


def mentions(word: str, sentence: Segment) -> bool:
    """Whether a sentence contains a word: a Latin one by its stem, a Chinese one by most of its characters."""
    if not has_cjk(word):
        return not sentence.terms.isdisjoint(query_terms(word))
    return 2 * sum(char in sentence.text for char in word) > len(word)


def _blank_out(text: str, claims: Sequence[Claim]) -> str:
    parts: list[str] = []
    position = 0
    for claim in claims:
        parts += [text[position : claim.start], " " * (claim.end - claim.start)]
        position = claim.end
    return "".join([*parts, text[position:]])


def _is_surname(claim: Claim) -> bool:
    return claim.value.endswith("氏")


def _first_entity(segment: Segment) -> str:
    return segment.heads[0][0] if segment.heads else ""


def _is_about(target: QuestionTarget, sentence: Segment, title: Segment, topic: str) -> bool:
    """Whether a sentence is about the event and the entity in question.

    ``topic`` is the latest entity before it, for a sentence that names none.
    """
    if target.events:
        return bool(target.events & sentence.events) and _has_event(target, sentence, title, topic)
    if target.keywords and not any(mentions(word, sentence) or mentions(word, title) for word in target.keywords):
        return False
    if target.entities:
        same = bool(sentence.entities & target.entities) and not _names_another(target, sentence)
        return same or (not sentence.entities and topic in target.entities)
    return bool(target.keywords) or _shares_words(target, sentence, title)


def _has_event(target: QuestionTarget, sentence: Segment, title: Segment, topic: str) -> bool:
    if not target.entities:
        return _shares_words(target, sentence, title)
    first = _first_entity(sentence) or topic
    return any(_clause_is_about(target, clause, first) for clause in sentence.clauses if target.events & clause.events)


def _shares_words(target: QuestionTarget, sentence: Segment, title: Segment) -> bool:
    return not target.terms or not target.terms.isdisjoint(sentence.terms | title.terms)


def _clause_is_about(target: QuestionTarget, clause: Segment, fallback: str) -> bool:
    """Whether the clause's event happens to the entity in question; ``fallback`` for a clause that names none."""
    if _names_another(target, clause):
        return False
    begins = [match.start() for name in target.events for match in clause.lexicon.events[name].finditer(clause.text)]
    before = {name for name, start, _ in clause.heads if start < max(begins)}
    after = [name for name, start, _ in clause.heads if start >= min(begins)]
    if before:
        return bool(before & target.entities)
    if after:
        return after[0] in target.entities
    return fallback in target.entities


def _names_another(target: QuestionTarget, segment: Segment) -> bool:
    """Whether a segment names another entity of the same kind: 东塔 for a question about 西塔."""
    asked = [bare_name(name.value, segment.lexicon) for name in target.names if name.kind is ClaimKind.PLACE]
    named = [
        bare_name(claim.value, segment.lexicon)
        for claim in segment.claims
        if claim.kind is ClaimKind.PLACE and any(name in target.entities for name, _, _ in segment.heads_in(claim))
    ]
    return bool(asked and named) and not any(one in other or other in one for one in asked for other in named)


def _answer_claims(target: QuestionTarget, answer_type: AnswerType, sentence: Segment) -> tuple[Claim, ...] | None:
    """The answering claims of a sentence; None if it does not answer. *Who* and *where* need no name."""
    found: tuple[Claim, ...]
    if answer_type is AnswerType.WHEN:
        found = tuple(
            claim for claim in sentence.claims if claim.kind in TIMES and _dates_event(target, sentence, claim)
        )
        return found or None
    if answer_type is AnswerType.HOW_MANY:
        found = tuple(claim for claim in sentence.claims if _is_count_in(target.units, claim, sentence.text))
        return found or None
    lexicon, who = sentence.lexicon, answer_type is AnswerType.WHO
    kind, fallback = (ClaimKind.PERSON, lexicon.persons) if who else (ClaimKind.PLACE, lexicon.locations)
    known_places = {claim.value for claim in target.names if claim.kind is ClaimKind.PLACE}
    found = tuple(
        claim
        for claim in sentence.claims
        if claim.kind is kind and not _is_surname(claim) and claim.value not in known_places
    )
    return found if found or fallback.search(sentence.text) else None


def _dates_event(target: QuestionTarget, sentence: Segment, claim: Claim) -> bool:
    """Whether the clause of a time is about the event in question, or about no event."""
    events = sentence.clause_of(claim).events
    return not target.events or not events or bool(events & target.events)


def _is_count_in(units: frozenset[str], claim: Claim, sentence: str) -> bool:
    """Whether a claim is a count in an accepted unit; 前两次 counts a part, not the whole."""
    if claim.kind is ClaimKind.GENERATION or GENERATIONS in units:
        return claim.kind is ClaimKind.GENERATION and GENERATIONS in units
    if claim.kind is not ClaimKind.NUMBER or claim.value.startswith("#"):
        return False
    if claim.start and sentence[claim.start - 1] in _PARTIAL_COUNT:
        return False
    return not units or claim.value.partition(" ")[2] in units | {""}
