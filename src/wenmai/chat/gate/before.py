"""The gate before the model: may this question be answered from this evidence, so that a model be asked?"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

import msgspec

from wenmai.chat.gate.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.chat.gate.claims import find_claims
from wenmai.chat.gate.counts import ITEM
from wenmai.chat.gate.grounds import Ground, ground, grounds, implied, standing
from wenmai.chat.gate.policy import GatePolicy
from wenmai.chat.gate.reading import Piece
from wenmai.chat.gate.relevance import Asked, answering, says, understood
from wenmai.chat.gate.vocabulary import ONCE
from wenmai.chat.intent import Focus
from wenmai.chat.profile import Topic
from wenmai.chat.types import Intent, Passage, PolicyMode
from wenmai.text.cjk import has_cjk, has_words

_WISH = re.compile(
    r"给我|帮我|为我|列出|列举|字[^，。]{0,3}(?:介绍|概括|总结|说明|以内|左右)|(?:讲|说|举|"
    r"写)[^，。]{0,2}[\d一二两三四五六七八九十]"
    r"|\b(?:tell|give|list|show|name)\b|\b(?:sentences?|words?|lines?|examples?|paragraphs?)\b",
    re.IGNORECASE,
)


_MOST_PREMISES = 20
"""Claims of a question that are looked up; who writes more than that is not asking."""


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a passage that answers what was asked, with the claims in it that do."""

    number: int
    sentence: str
    claims: tuple[Claim, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What may be done with a question.

    Attributes:
        mode: ``normal``: answer, with a model if there is one; otherwise no model is called.
        reason: why, for the trace; empty if there is nothing to say.
        passages: the evidence that is strong enough, in the order found.
        about: the question as it was searched for; what sentences are compared with.
        focus: the kind of answer that is asked for.
        answers: the sentences that hold such an answer; empty if no kind was asked for.
        disagree: passages answer differently: both must be told.
        premises: what the question takes for granted and no passage says, as the visitor wrote it.
    """

    mode: PolicyMode
    reason: str
    passages: tuple[Passage, ...] = ()
    about: str = ""
    focus: Focus | None = None
    answers: tuple[Answering, ...] = ()
    disagree: bool = False
    premises: tuple[str, ...] = ()


def before_model(
    question: str,
    intent: Intent,
    focus: Focus | None,
    passages: Sequence[Passage],
    policy: GatePolicy,
    forbidden: Sequence[Topic],
    *,
    searched: str = "",
    known: Sequence[str] = (),
) -> Verdict:
    """Judge a question against the evidence found for it.

    Reasons: ``forbidden:<topic>``, ``out_of_scope``, ``too_thin: …``, ``premise_unsupported: …``,
    ``not_answered: <focus>``, or empty.

    Args:
        question: what the visitor wrote; its claims are the visitor's.
        intent: only ``fact_seeking`` needs evidence.
        focus: the kind of answer that is asked for, if any.
        passages: as the search found them, with their scores.
        policy: how strict to be.
        forbidden: topics that are refused whatever the intent.
        searched: the question completed from the talk, if it was; it is only compared with sentences.
        known: names that need no evidence, such as the persona's own.
    """
    for topic in forbidden:
        if has_words(question, topic.words):
            return Verdict(mode=PolicyMode.REFUSE, reason=f"forbidden:{topic.name}")
    about = searched or question
    if intent is not Intent.FACT_SEEKING:
        reason = "out_of_scope" if intent is Intent.OUT_OF_SCOPE else ""
        return Verdict(mode=PolicyMode.NORMAL, reason=reason, about=about, focus=focus)
    strong = tuple(each for each in passages if _is_strong(each, policy))
    if len(strong) < policy.min_citations:
        reason = f"too_thin: {len(strong)} of {policy.min_citations} passages score {policy.min_score:g} or more"
        return Verdict(mode=PolicyMode.CONSERVATIVE, reason=reason, passages=strong, about=about, focus=focus)
    return _judged(question, about, focus, strong, known)


def _is_strong(passage: Passage, policy: GatePolicy) -> bool:
    allowed = passage.verified or not policy.verified_only
    return allowed and passage.score >= policy.min_score and bool(ground(passage).sentences)


def _judged(
    question: str, about: str, focus: Focus | None, strong: tuple[Passage, ...], known: Sequence[str]
) -> Verdict:
    on = grounds(strong)
    asked = understood(about)
    missing = [
        claim
        for claim, clause in islice(_premises(question, known), _MOST_PREMISES)
        if _is_missing(claim, on) or _is_otherwise(claim, clause, on)
    ]
    premises = tuple(dict.fromkeys(claim.text for claim in missing))
    answers = _answers(asked, focus, on) if focus else ()
    mode, reason = PolicyMode.NORMAL, ""
    if missing:
        reason = f"premise_unsupported: {', '.join(premises)}"
    if any(claim.kind in NAMES for claim in missing):
        mode = PolicyMode.CONSERVATIVE
    elif focus and not answers:
        mode, reason = PolicyMode.CONSERVATIVE, reason or f"not_answered: {focus.value}"
    return Verdict(
        mode=mode,
        reason=reason,
        passages=strong,
        about=about,
        focus=focus,
        answers=answers,
        disagree=_disagree(answers, focus, asked),
        premises=premises,
    )


def _premises(question: str, known: Sequence[str]) -> Iterator[tuple[Claim, str]]:
    """What a question takes for granted, once each, with its clause; how many words it wants is a wish."""
    whole = Piece(question)
    once = {(claim.kind, claim.value): claim for claim in reversed(find_claims(question, known=known))}
    for claim in reversed(once.values()):
        clause = whole.clause_of(claim).text
        if claim.kind is not ClaimKind.NUMBER or not _WISH.search(clause):
            yield claim, clause


def _is_missing(claim: Claim, on: Sequence[Ground]) -> bool:
    """Whether no passage holds what the question names; a name is only looked for in its own script."""
    if standing(claim, on) or claim.value.startswith("#"):
        return False
    same_script = any(has_cjk(sentence.text) == has_cjk(claim.text) for ground in on for sentence in ground.sentences)
    return claim.kind not in NAMES or same_script


def _is_otherwise(claim: Claim, clause: str, on: Sequence[Ground]) -> bool:
    """Whether the passages give another time for the deed that the question's clause dates."""
    if claim.kind not in TIMES:
        return False
    asked = understood(clause)
    told = _answers(asked, Focus.WHEN, on) if asked.deeds else ()
    keys = {key for answer in told for each in answer.claims for key in implied(each)}
    return bool(told) and (claim.kind, claim.value) not in keys


def _answers(asked: Asked, focus: Focus, on: Sequence[Ground]) -> tuple[Answering, ...]:
    needed = [name for name in asked.names if standing(name, on)]
    return tuple(
        Answering(number=ground.number, sentence=sentence.text, claims=claims)
        for ground in on
        if all(ground.supports(name) for name in needed)
        for sentence, claims in answering(asked, focus, ground.title, ground.sentences)
    )


def _disagree(answers: Sequence[Answering], focus: Focus | None, asked: Asked) -> bool:
    """Whether two passages give different years, or different counts in one unit, for the same deed.

    What can happen more than once, such as a repair, has several years without contradiction; and two counts
    are only compared where the question says of what.
    """
    deeds = asked.deeds & ONCE
    if not deeds and (focus is not Focus.HOW_MANY or not asked.rest):
        return False
    told: dict[tuple[int, frozenset[str], str], set[str]] = {}
    for answer in answers:
        sentence = Piece(answer.sentence)
        about = deeds & sentence.deeds or frozenset(piece for piece in asked.rest if says(piece, sentence))
        for unit, claim in ((_comparable(claim), claim) for claim in answer.claims if about):
            if unit:
                told.setdefault((answer.number, about, unit), set()).add(claim.value)
    return any(
        one[0] != other[0] and one[1:] == other[1:] and told[one].isdisjoint(told[other])
        for one, other in combinations(told, 2)
    )


def _comparable(claim: Claim) -> str:
    """What two claims must share to be able to contradict each other; ``""`` for one that cannot."""
    if claim.kind is ClaimKind.YEAR:
        return "year" if claim.value.lstrip("-").isdecimal() else ""
    unit = claim.value.partition(" ")[2]
    return unit if claim.kind is ClaimKind.NUMBER and unit != ITEM else ""
