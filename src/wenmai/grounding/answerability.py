"""Answerability, checked before the model: may this question be answered from this evidence?"""

import re
from collections.abc import Iterator, Sequence
from itertools import combinations, islice

import msgspec

from wenmai.config.profile import Topic
from wenmai.grounding.claims.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.policy import GroundingPolicy
from wenmai.grounding.relevance import QuestionTarget, find_answers, mentions, parse_target
from wenmai.grounding.segments import Segment
from wenmai.grounding.support import PassageFacts, collect_facts, facts_of, implied_keys, supporting_passages
from wenmai.grounding.types import AnswerType, DialogueAct, Passage, PolicyMode
from wenmai.text.cjk import find_words, has_cjk

_LENGTH_REQUEST = re.compile(
    r"给我|帮我|为我|列出|列举|字[^，。]{0,3}(?:介绍|概括|总结|说明|以内|左右)|(?:讲|说|举|"
    r"写)[^，。]{0,2}[\d一二两三四五六七八九十]"
    r"|\b(?:tell|give|list|show|name)\b|\b(?:sentences?|words?|lines?|examples?|paragraphs?)\b",
    re.IGNORECASE,
)


_MAX_PREMISES = 20
"""Claims of a question that are looked up; the rest is ignored."""


class AnswerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence of a passage that answers the question, with its answering claims."""

    number: int
    sentence: str
    claims: tuple[Claim, ...]


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Decision on a question.

    Attributes:
        mode: ``normal``: answer, with the model if there is one; in any other mode no model is called.
        reason: for the trace; empty if there is none.
        passages: the evidence that is strong enough, in the order retrieved.
        standalone_question: the question as rewritten for the search; sentences are compared with it.
        answer_type: the expected kind of answer.
        answers: the sentences that give such an answer; empty without an answer type.
        sources_conflict: passages give conflicting answers; the answer quotes each.
        unsupported_premises: claims of the question that no passage supports, as the user wrote them.
    """

    mode: PolicyMode
    reason: str
    passages: tuple[Passage, ...] = ()
    standalone_question: str = ""
    answer_type: AnswerType | None = None
    answers: tuple[AnswerSpan, ...] = ()
    sources_conflict: bool = False
    unsupported_premises: tuple[str, ...] = ()


def check_answerability(
    question: str,
    dialogue_act: DialogueAct,
    answer_type: AnswerType | None,
    passages: Sequence[Passage],
    policy: GroundingPolicy,
    forbidden: Sequence[Topic],
    *,
    standalone_question: str = "",
    known: Sequence[str] = (),
    lexicon: Lexicon = EMPTY,
) -> Verdict:
    """Decide whether the evidence retrieved for a question can answer it.

    Reasons: ``forbidden:<topic>``, ``out_of_scope``, ``too_thin: …``, ``premise_unsupported: …``,
    ``not_answered: <answer type>``, or empty.

    Args:
        question: as the user wrote it; its claims are the user's.
        dialogue_act: only ``fact_seeking`` needs evidence.
        answer_type: the expected kind of answer, if any.
        passages: as retrieved, with their scores.
        policy: how strict to be.
        forbidden: topics that are refused whatever the dialogue act.
        standalone_question: the question rewritten with context from the conversation, if it was; only compared with
            sentences.
        known: names that need no evidence, such as the persona's own.
        lexicon: the words of the field.
    """
    for topic in forbidden:
        if find_words(question, topic.words):
            return Verdict(mode=PolicyMode.REFUSE, reason=f"forbidden:{topic.name}")
    standalone_question = standalone_question or question
    if dialogue_act is not DialogueAct.FACT_SEEKING:
        reason = "out_of_scope" if dialogue_act is DialogueAct.OUT_OF_SCOPE else ""
        return Verdict(
            mode=PolicyMode.NORMAL, reason=reason, standalone_question=standalone_question, answer_type=answer_type
        )
    strong = tuple(each for each in passages if _is_strong(each, policy, lexicon))
    if len(strong) < policy.min_citations:
        reason = f"too_thin: {len(strong)} of {policy.min_citations} passages score {policy.min_score:g} or more"
        return Verdict(
            mode=PolicyMode.CONSERVATIVE,
            reason=reason,
            passages=strong,
            standalone_question=standalone_question,
            answer_type=answer_type,
        )
    return _judge(question, standalone_question, answer_type, strong, known, lexicon)


def _is_strong(passage: Passage, policy: GroundingPolicy, lexicon: Lexicon) -> bool:
    allowed = passage.verified or not policy.verified_only
    return allowed and passage.score >= policy.min_score and bool(facts_of(passage, lexicon).sentences)


def _judge(
    question: str,
    standalone_question: str,
    answer_type: AnswerType | None,
    strong: tuple[Passage, ...],
    known: Sequence[str],
    lexicon: Lexicon,
) -> Verdict:
    facts = collect_facts(strong, lexicon)
    target = parse_target(standalone_question, lexicon)
    missing = [
        claim
        for claim, clause in islice(_premises(question, known, lexicon), _MAX_PREMISES)
        if _is_missing(claim, facts) or _is_contradicted(claim, clause, facts)
    ]
    unsupported_premises = tuple(dict.fromkeys(claim.text for claim in missing))
    answers = _answers(target, answer_type, facts) if answer_type else ()
    mode, reason = PolicyMode.NORMAL, ""
    if missing:
        reason = f"premise_unsupported: {', '.join(unsupported_premises)}"
    if any(claim.kind in NAMES for claim in missing):
        mode = PolicyMode.CONSERVATIVE
    elif answer_type and not answers:
        mode, reason = PolicyMode.CONSERVATIVE, reason or f"not_answered: {answer_type.value}"
    return Verdict(
        mode=mode,
        reason=reason,
        passages=strong,
        standalone_question=standalone_question,
        answer_type=answer_type,
        answers=answers,
        sources_conflict=_sources_conflict(answers, answer_type, target, lexicon),
        unsupported_premises=unsupported_premises,
    )


def _premises(question: str, known: Sequence[str], lexicon: Lexicon) -> Iterator[tuple[Claim, Segment]]:
    """The question's claims, once each, with their clauses; a requested length (“in 100 words”) is no claim."""
    whole = Segment(question, lexicon=lexicon)
    once = {(claim.kind, claim.value): claim for claim in reversed(find_claims(question, lexicon, known=known))}
    for claim in reversed(once.values()):
        clause = whole.clause_of(claim)
        if claim.kind is not ClaimKind.NUMBER or not _LENGTH_REQUEST.search(clause.text):
            yield claim, clause


def _is_missing(claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether no passage supports a claim of the question; a name is only looked up in its own script."""
    if supporting_passages(claim, facts) or claim.value.startswith("#"):
        return False
    same_script = any(
        has_cjk(sentence.text) == has_cjk(claim.text) for passage in facts for sentence in passage.sentences
    )
    return claim.kind not in NAMES or same_script


def _is_contradicted(claim: Claim, clause: Segment, facts: Sequence[PassageFacts]) -> bool:
    """Whether the passages give another time for the event that the question's clause dates."""
    if claim.kind not in TIMES:
        return False
    target = parse_target(clause.text, clause.lexicon)
    answers = _answers(target, AnswerType.WHEN, facts) if target.events else ()
    keys = {key for answer in answers for each in answer.claims for key in implied_keys(each)}
    return bool(answers) and (claim.kind, claim.value) not in keys


def _answers(target: QuestionTarget, answer_type: AnswerType, facts: Sequence[PassageFacts]) -> tuple[AnswerSpan, ...]:
    needed = [name for name in target.names if supporting_passages(name, facts)]
    return tuple(
        AnswerSpan(number=passage.number, sentence=sentence.text, claims=claims)
        for passage in facts
        if all(passage.supports(name) for name in needed)
        for sentence, claims in find_answers(target, answer_type, passage.title, passage.sentences)
    )


def _sources_conflict(
    answers: Sequence[AnswerSpan], answer_type: AnswerType | None, target: QuestionTarget, lexicon: Lexicon
) -> bool:
    """Whether two passages give different years, or different counts in one unit, for the same event.

    Events that can recur, such as a repair, have several years without conflict. Counts are only compared if the
    question says of what.
    """
    events = target.events & lexicon.one_time_events
    if not events and (answer_type is not AnswerType.HOW_MANY or not target.keywords):
        return False
    values: dict[tuple[int, frozenset[str], str], set[str]] = {}
    for answer in answers:
        sentence = Segment(answer.sentence, lexicon=lexicon)
        subject = events & sentence.events or frozenset(word for word in target.keywords if mentions(word, sentence))
        for unit, claim in ((_comparable(claim), claim) for claim in answer.claims if subject):
            if unit:
                values.setdefault((answer.number, subject, unit), set()).add(claim.value)
    return any(
        one[0] != other[0] and one[1:] == other[1:] and values[one].isdisjoint(values[other])
        for one, other in combinations(values, 2)
    )


def _comparable(claim: Claim) -> str:
    """The unit in which claims can conflict; ``""`` for a claim that cannot."""
    if claim.kind is ClaimKind.YEAR:
        return "year" if claim.value.lstrip("-").isdecimal() else ""
    unit = claim.value.partition(" ")[2]
    return unit if claim.kind is ClaimKind.NUMBER and unit != ITEM else ""
