"""Answerability, checked before the model: may this question be answered from this evidence?"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice

import msgspec

from wenmai.config.profile import Topic
from wenmai.grounding.answers.finder import ANSWERED, MAY_ANSWER, AnswerSpan, find_answers
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import Question, parse_question
from wenmai.grounding.claims.claim import NAMES, TIMES, Claim, ClaimKind
from wenmai.grounding.claims.counts import ITEM
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.policy import GroundingPolicy
from wenmai.grounding.support import PassageFacts, collect_facts, implied_keys, supporting_passages
from wenmai.grounding.types import AnswerType, DialogueAct, Passage, PolicyMode
from wenmai.text.cjk import find_words, has_cjk

_LENGTH_REQUEST = re.compile(
    r"给我|帮我|为我|列出|列举|字[^，。]{0,3}(?:介绍|概括|总结|说明|以内|左右)|(?:讲|说|举|"
    r"写)[^，。]{0,2}[\d一二两三四五六七八九十]"
    r"|\b(?:tell|give|list|show|name)\b|\b(?:sentences?|words?|lines?|examples?|paragraphs?)\b",
    re.IGNORECASE,
)


_CLAUSE_END = re.compile(r"[，,；;：:。！？!?]")
_WHEN = " 什么时候 "
_ASKS = dict.fromkeys(TIMES, _WHEN) | {ClaimKind.NUMBER: " 多少 "}
_OWN_SITUATION = re.compile(
    r"我(?!们?(?:[^，。]{0,4}(?:记得|听|以为|看到|觉得)))|[娃孩]|\b(?:my|our)\b"
    r"|\b(?:i|we)\b(?! (?:heard|read|saw|thought|remember|was|were))",
    re.IGNORECASE,
)
_CLOCK_OR_AGE = re.compile(r"\s?(?:岁|点钟?|时许|周岁|个?月大|[ap]\.?m\b|o'clock|years? old)", re.IGNORECASE)

_ANSWERED_DESPITE = 0.6
"""The probability from which a passage answers a question with a premise that it does not support."""

_MAX_PREMISES = 20
"""Claims of a question that are looked up; the rest is ignored."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Decision on a question.

    Attributes:
        mode: ``normal``: answer, with the model if there is one.
        undecided: in conservative mode: a sentence may answer, so a model that reads the passages decides; without a
            model the question stays open. In any other verdict that is not ``normal`` no model is called.
        reason: for the trace; empty if there is none.
        passages: the evidence that is strong enough, in the order retrieved.
        standalone_question: the question as rewritten for the search; sentences are compared with it.
        answer_type: the expected kind of answer.
        answers: the best sentence of each passage that answers, best first.
        nearest: if none answers, sentences to quote with the remark that they do not answer the question.
        sources_conflict: passages give conflicting answers; the answer quotes each.
        unsupported_premises: claims of the question that no passage supports, as the user wrote them.
    """

    mode: PolicyMode
    reason: str
    passages: tuple[Passage, ...] = ()
    standalone_question: str = ""
    answer_type: AnswerType | None = None
    answers: tuple[AnswerSpan, ...] = ()
    nearest: tuple[AnswerSpan, ...] = ()
    sources_conflict: bool = False
    unsupported_premises: tuple[str, ...] = ()
    undecided: bool = False


def check_answerability(
    question: str,
    dialogue_act: DialogueAct,
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
        return Verdict(mode=PolicyMode.NORMAL, reason=reason, standalone_question=standalone_question)
    strong = tuple(each for each in passages if _is_strong(each, policy))
    if len(strong) < policy.min_citations:
        reason = f"too_thin: {len(strong)} of {policy.min_citations} passages score {policy.min_score:g} or more"
        return Verdict(
            mode=PolicyMode.CONSERVATIVE, reason=reason, passages=strong, standalone_question=standalone_question
        )
    return _judge(question, standalone_question, strong, known, lexicon, needs_answer=policy.min_citations > 0)


def likely_answers(question: str, passages: Sequence[Passage], lexicon: Lexicon) -> list[AnswerSpan]:
    """The best sentence of each passage, best first, whether it has a value of the type asked about or not."""
    parsed = msgspec.structs.replace(parse_question(question, lexicon), answer_type=None, values=())
    return find_answers(parsed, passages)


def _is_strong(passage: Passage, policy: GroundingPolicy) -> bool:
    allowed = passage.verified or not policy.verified_only
    return allowed and passage.score >= policy.min_score and bool(analyse(passage.title, passage.text).sentences)


def _judge(
    question: str,
    standalone_question: str,
    strong: tuple[Passage, ...],
    known: Sequence[str],
    lexicon: Lexicon,
    *,
    needs_answer: bool,
) -> Verdict:
    claims = find_claims(question, lexicon, known=known)
    missing = _unsupported(question, claims, strong, lexicon)
    parsed = parse_question(_without_premises(standalone_question, missing, known), lexicon)
    found = _naming_first(find_answers(parsed, strong), claims, strong)
    needed = _ANSWERED_DESPITE if missing else ANSWERED
    answers = tuple(each for each in found if each.probability >= needed)
    unsupported_premises = tuple(dict.fromkeys(claim.text for claim in missing))
    mode, reason, undecided = PolicyMode.NORMAL, "", False
    if missing:
        reason = f"premise_unsupported: {', '.join(unsupported_premises)}"
    if any(claim.kind in NAMES for claim in missing):
        mode = PolicyMode.CONSERVATIVE
    elif needs_answer and not answers:
        mode, reason = PolicyMode.CONSERVATIVE, reason or f"not_answered: {parsed.answer_type or 'topic'}"
        undecided = any(each.probability >= MAY_ANSWER for each in found)
    return Verdict(
        mode=mode,
        reason=reason,
        passages=strong,
        standalone_question=standalone_question,
        answer_type=parsed.answer_type,
        answers=answers,
        sources_conflict=_sources_conflict(answers, parsed, lexicon),
        unsupported_premises=unsupported_premises,
        undecided=undecided,
    )


def _naming_first(found: list[AnswerSpan], claims: Sequence[Claim], passages: Sequence[Passage]) -> list[AnswerSpan]:
    """The answers, those of passages with the names in the question first: another's generation is not the answer."""
    names = [claim.text for claim in claims if claim.kind in NAMES]
    texts = {passage.number: f"{passage.title} {passage.text}" for passage in passages}
    return sorted(found, key=lambda each: sum(name not in texts[each.number] for name in names))


def _without_premises(question: str, missing: Sequence[Claim], known: Sequence[str]) -> str:
    """The question without unsupported claims, asking for their true value, and without the persona's names."""
    for name in known:
        question = re.sub(rf"{re.escape(name)}(?:[^，,。\s]{{0,2}}[，,])?", " ", question)
    for claim in missing:
        open_question = parse_question(question).answer_type in {None, AnswerType.YES_NO}
        asks = _ASKS.get(claim.kind, "") if open_question and has_cjk(question) else " "
        question = question.replace(claim.text, asks)
    return question


def _unsupported(question: str, claims: Sequence[Claim], passages: Sequence[Passage], lexicon: Lexicon) -> list[Claim]:
    premises = list(islice(_premises(question, claims), _MAX_PREMISES))
    if not premises:
        return []
    facts = collect_facts(passages, lexicon)
    return [
        claim
        for claim, clause in premises
        if _is_missing(claim, facts) or _is_contradicted(claim, clause, passages, lexicon)
    ]


def _premises(question: str, claims: Sequence[Claim]) -> Iterator[tuple[Claim, str]]:
    """The question's claims, once each, with their clauses, without numbers that describe the user or the request."""
    once = {(claim.kind, claim.value): claim for claim in reversed(claims)}
    for claim in reversed(once.values()):
        clause = _clause(question, claim)
        if claim.kind is not ClaimKind.NUMBER or not _is_condition(question, claim, clause):
            yield claim, clause


def _is_condition(question: str, claim: Claim, clause: str) -> bool:
    """Whether a number is a requested length, the user's own situation, a time of day or an age."""
    following = question[claim.end : claim.end + 10]
    return (
        _LENGTH_REQUEST.search(clause) is not None
        or _OWN_SITUATION.search(clause) is not None
        or claim.text.endswith(("岁", "点", "度"))
        or _CLOCK_OR_AGE.match(following) is not None
    )


def _clause(question: str, claim: Claim) -> str:
    """The clause of a claim."""
    before = max((mark.end() for mark in _CLAUSE_END.finditer(question, 0, claim.start)), default=0)
    after = _CLAUSE_END.search(question, claim.end)
    return question[before : after.start() if after else len(question)]


def _is_missing(claim: Claim, facts: Sequence[PassageFacts]) -> bool:
    """Whether no passage supports a claim of the question; a name is only looked up in its own script."""
    if supporting_passages(claim, facts) or claim.value.startswith("#"):
        return False
    same_script = any(
        has_cjk(sentence.text) == has_cjk(claim.text) for passage in facts for sentence in passage.sentences
    )
    return claim.kind not in NAMES or same_script


def _is_contradicted(claim: Claim, clause: str, passages: Sequence[Passage], lexicon: Lexicon) -> bool:
    """Whether the sentence that answers when the clause's event was gives another time."""
    if claim.kind not in TIMES:
        return False
    event = parse_question(clause.replace(claim.text, _WHEN), lexicon)
    keys = {
        key
        for answer in find_answers(event, passages)
        if answer.probability >= ANSWERED
        for each in _claims_of(answer.sentence, lexicon)
        if each.kind in TIMES
        for key in implied_keys(each)
    }
    return bool(keys) and (claim.kind, claim.value) not in keys


def _sources_conflict(answers: Sequence[AnswerSpan], question: Question, lexicon: Lexicon) -> bool:
    """Whether the best passage and another give different years, or different counts in the unit asked about."""
    if question.answer_type not in {AnswerType.WHEN, AnswerType.HOW_MANY, AnswerType.HOW_LONG}:
        return False
    asked = "year" if question.answer_type is AnswerType.WHEN else question.unit
    values = [_comparable(answer.sentence, lexicon) for answer in answers]
    return any(asked in each and each[asked].isdisjoint(values[0].get(asked, each[asked])) for each in values[1:])


def _comparable(sentence: str, lexicon: Lexicon) -> dict[str, set[str]]:
    """The values of a sentence that can conflict, by unit."""
    values: dict[str, set[str]] = {}
    for claim in _claims_of(sentence, lexicon):
        unit = claim.value.partition(" ")[2]
        if claim.kind is ClaimKind.YEAR and claim.value.lstrip("-").isdecimal():
            values.setdefault("year", set()).add(claim.value)
        elif claim.kind is ClaimKind.NUMBER and unit and unit != ITEM:
            values.setdefault(unit, set()).add(claim.value)
    return values


@lru_cache(maxsize=1024)
def _claims_of(sentence: str, lexicon: Lexicon) -> tuple[Claim, ...]:
    """The claims of a sentence of the evidence; the same ones answer many questions."""
    return tuple(find_claims(sentence, lexicon))
