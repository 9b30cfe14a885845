"""Which sentence of the evidence speaks of what a question asks.

A year in a passage answers *when was the hall built* only if it stands where the building of the hall is
spoken of, and not beside the flood or the bridge. What happened is compared by groups of synonyms, what it
happened to by the thing that the clause is about; where neither is known, shared words decide.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

import msgspec

from wenmai.chat.gate.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.chat.gate.counts import GENERATIONS, asked_units
from wenmai.chat.gate.grounds import bare_name
from wenmai.chat.gate.reading import Piece
from wenmai.chat.gate.vocabulary import DEEDS, PEOPLE, THING, WHEREABOUTS
from wenmai.chat.intent import Focus
from wenmai.text.cjk import content_words, has_cjk, query_terms

_PART = frozenset("前后头首另又再")
_ASIDE = re.compile(
    r"(?:多少|几)(?:户人家|家人家|[\u4e00-\u9fff])?|(?<=[村族镇乡县家])[里中内]|年份|年代|时间|时候|日期|地方|位置|名字|数量|朝代|"
    r"哪一?[年天位里儿个]|何[时年人地处]|什么|是谁|谁"
    r"|\b(?:years?|dates?|days?|times?|centur(?:y|ies)|persons?|people|places?|names?|long|much|"
    r"old|many|far|called)\b",
    re.IGNORECASE,
)
_TO_BUILD_OR_REPAIR = re.compile(r"修(?![建筑谱订改养])")
_BOTH = frozenset({"build", "rebuild"})
_MOST_NAMES = 20
"""Names of a question that passages are compared with."""


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


@lru_cache(maxsize=64)
def understood(question: str) -> Asked:
    """What a question (completed from the talk, if need be) asks."""
    piece = Piece(question)
    deeds = piece.deeds
    if deeds & _BOTH and _TO_BUILD_OR_REPAIR.search(question):
        deeds |= _BOTH
    names = [claim for claim in piece.claims if claim.kind in NAMES]
    own = [claim for claim in names if piece.heads_in(claim)]
    people = [claim for claim in names if claim.kind is ClaimKind.PERSON and not _is_clan(claim)]
    rest = THING.sub(" ", _blank(question, names))
    return Asked(
        terms=frozenset(query_terms(question)),
        deeds=deeds,
        things=piece.things,
        units=asked_units(question),
        ordinals=piece.ordinals,
        names=tuple(own if piece.heads else people)[:_MOST_NAMES],
        rest=tuple(content_words(_ASIDE.sub(" ", rest))),
    )


def answering(
    asked: Asked, focus: Focus, title: Piece, sentences: Sequence[Piece]
) -> list[tuple[Piece, tuple[Claim, ...]]]:
    """The sentences that answer a question of a focus, each with the claims in it that do.

    Args:
        asked: the question.
        focus: the kind of answer that is asked for.
        title: the passage's title.
        sentences: the passage's quotable sentences, in order.
    """
    found: list[tuple[Piece, tuple[Claim, ...]]] = []
    topic = _first_thing(title)
    for sentence in sentences:
        if _is_about(asked, sentence, title, topic):
            claims = _answers(asked, focus, sentence)
            if claims is not None:
                found.append((sentence, claims))
        topic = _first_thing(sentence) or topic
    direct = [answer for answer in found if asked.things & answer[0].things]
    return direct or found


def overlap(asked: Asked, sentence: Piece) -> float:
    """The share of the question's content words that a sentence holds, 0 to 1."""
    return len(asked.terms & sentence.terms) / len(asked.terms) if asked.terms else 0.0


def says(piece: str, sentence: Piece) -> bool:
    """Whether a sentence holds a word: a Latin one by its stem, a Chinese one by most of its characters."""
    if not has_cjk(piece):
        return not sentence.terms.isdisjoint(query_terms(piece))
    return 2 * sum(char in sentence.text for char in piece) > len(piece)


def _blank(text: str, claims: Sequence[Claim]) -> str:
    parts: list[str] = []
    position = 0
    for claim in claims:
        parts += [text[position : claim.start], " " * (claim.end - claim.start)]
        position = claim.end
    return "".join([*parts, text[position:]])


def _is_clan(claim: Claim) -> bool:
    return claim.value.endswith("氏")


def _first_thing(piece: Piece) -> str:
    return piece.heads[0][0] if piece.heads else ""


def _is_about(asked: Asked, sentence: Piece, title: Piece, topic: str) -> bool:
    """Whether a sentence speaks of what happened to the thing asked about.

    ``topic`` is what the passage was about before it, for a sentence that names nothing itself.
    """
    if asked.deeds:
        return bool(asked.deeds & sentence.deeds) and _is_done_to(asked, sentence, title, topic)
    if asked.rest and not any(says(piece, sentence) or says(piece, title) for piece in asked.rest):
        return False
    if asked.things:
        same = bool(sentence.things & asked.things) and not _is_of_another(asked, sentence)
        return same or (not sentence.things and topic in asked.things)
    return bool(asked.rest) or _shares_words(asked, sentence, title)


def _is_done_to(asked: Asked, sentence: Piece, title: Piece, topic: str) -> bool:
    if not asked.things:
        return _shares_words(asked, sentence, title)
    first = _first_thing(sentence) or topic
    return any(_clause_subject(asked, clause, first) for clause in sentence.clauses if asked.deeds & clause.deeds)


def _shares_words(asked: Asked, sentence: Piece, title: Piece) -> bool:
    return not asked.terms or not asked.terms.isdisjoint(sentence.terms | title.terms)


def _clause_subject(asked: Asked, clause: Piece, otherwise: str) -> bool:
    """Whether what is done in a clause is done to the thing asked about."""
    if _is_of_another(asked, clause):
        return False
    begins = [match.start() for name in asked.deeds for match in DEEDS[name].finditer(clause.text)]
    before = {name for name, start, _ in clause.heads if start < max(begins)}
    after = [name for name, start, _ in clause.heads if start >= min(begins)]
    if before:
        return bool(before & asked.things)
    if after:
        return after[0] in asked.things
    return otherwise in asked.things


def _is_of_another(asked: Asked, piece: Piece) -> bool:
    """Whether a piece names another thing of the same kind: 永安桥 when 通济桥 was asked about."""
    own = [bare_name(name.value) for name in asked.names if name.kind is ClaimKind.PLACE]
    named = [
        bare_name(claim.value)
        for claim in piece.claims
        if claim.kind is ClaimKind.PLACE and any(name in asked.things for name, _, _ in piece.heads_in(claim))
    ]
    return bool(own and named) and not any(one in other or other in one for one in own for other in named)


def _answers(asked: Asked, focus: Focus, sentence: Piece) -> tuple[Claim, ...] | None:
    """The claims of a sentence that answer; None if nothing does. *Who* and *where* may do without a name."""
    found: tuple[Claim, ...]
    if focus is Focus.WHEN:
        found = tuple(
            claim for claim in sentence.claims if claim.kind in TIMES and _beside_deed(asked, sentence, claim)
        )
        return found or None
    if focus is Focus.HOW_MANY:
        found = tuple(claim for claim in sentence.claims if _counts(asked.units, claim, sentence.text))
        return found or None
    kind, otherwise = (ClaimKind.PERSON, PEOPLE) if focus is Focus.WHO else (ClaimKind.PLACE, WHEREABOUTS)
    places_asked = {claim.value for claim in asked.names if claim.kind is ClaimKind.PLACE}
    found = tuple(
        claim
        for claim in sentence.claims
        if claim.kind is kind and not _is_clan(claim) and claim.value not in places_asked
    )
    return found if found or otherwise.search(sentence.text) else None


def _beside_deed(asked: Asked, sentence: Piece, claim: Claim) -> bool:
    """Whether the clause of a time speaks of what was asked, or of nothing else."""
    done = sentence.clause_of(claim).deeds
    return not asked.deeds or not done or bool(done & asked.deeds)


def _counts(units: frozenset[str], claim: Claim, sentence: str) -> bool:
    """Whether a claim counts in the unit asked for; 前两次 counts a part and not the whole."""
    if claim.kind is ClaimKind.GENERATION or GENERATIONS in units:
        return claim.kind is ClaimKind.GENERATION and GENERATIONS in units
    if claim.kind is not ClaimKind.NUMBER or claim.value.startswith("#"):
        return False
    if claim.start and sentence[claim.start - 1] in _PART:
        return False
    return not units or claim.value.partition(" ")[2] in units | {""}
