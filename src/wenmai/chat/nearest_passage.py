"""The passage nearest to a question that no passage answers, of those that the business state limits it to.

The operation says what such a question is about, so a passage of its object and domain with some of its words is worth
reading. It is quoted with the remark that it does not answer the question.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wenmai.business.rules import BusinessRules
from wenmai.business.words import plain
from wenmai.grounding.answerability import Verdict, likely_answers
from wenmai.grounding.answers.finder import AnswerSpan
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.lexicon import Lexicon
from wenmai.grounding.types import Passage
from wenmai.memory.state import StateUpdate
from wenmai.text.cjk import find_words, query_terms, terms

_LEAST = 0.02
"""The least worth of a passage that is quoted."""

_OF_SCORE = 0.5
"""How much the share of the question's words counts beside the probability of an answer."""

_NOT_SHARED = 0.5
"""The part that counts of a passage that shares only the object's name with the question."""

_STAGE, _CURRENT_STAGE, _CITED = 0.2, 0.03, 0.06
"""What a section titled by the stage that is asked about is worth, by the current one, and a passage cited last."""

_AS_NEAR = 0.4
"""The share of the best answer's score from which a section titled by the stage precedes it."""

_CONDITION = re.compile(r"[之以]?[后前]|[完好过了]")
"""After a stage that is a condition of what is asked."""


class QuestionTopic(msgspec.Struct, frozen=True, kw_only=True):
    """What a question is about, in the terms of the business rules.

    Attributes:
        own: the question's index terms, but for the objects' names.
        stage: words of the stage that it names or steps to; nothing if it names none, or only as a condition (入库后).
        current_stage: words of the stage of the current operation.
        cited: passages that it probably continues.
    """

    own: frozenset[str]
    stage: Sequence[str] = ()
    current_stage: Sequence[str] = ()
    cited: Sequence[Passage] = ()


class Near(msgspec.Struct, frozen=True):
    """A passage with its best sentence, and how near to the question it is, 0 to about 1."""

    passage: Passage
    span: AnswerSpan
    worth: float


def question_topic(
    question: str, message: str, update: StateUpdate, rules: BusinessRules, cited: Sequence[Passage]
) -> QuestionTopic:
    """What a question of a message is about.

    Args:
        question: one of the message.
        message: as the user wrote it.
        update: the state after it.
        rules: of the profile.
        cited: the passages cited last; used if the message names nothing of the rules.
    """
    current = update.state.current
    names = {each.business_object for each in update.state.operation_chain} & rules.objects.keys()
    known = {term for name in names for word in (name, *rules.objects[name].words) for term in query_terms(word)}
    said, last = update.recognized, update.changes[-1] if update.changes else None
    now = current.operation_stage if current else ""
    stage = _words(rules, (last.kept_out or now) if last and (said.stages or said.step) else "")
    return QuestionTopic(
        own=frozenset(query_terms(question)) - known,
        stage=[] if _is_condition(plain(message), stage) else stage,
        current_stage=_words(rules, now),
        cited=() if last else cited,
    )


def nearest(tried: Sequence[tuple[str, Sequence[Passage]]], asked: QuestionTopic, lexicon: Lexicon) -> Near | None:
    """The passage nearest to a question; None if none has anything of it.

    Args:
        tried: the wordings of the question, with the passages found for each within the limits of the state.
        asked: what it is about.
        lexicon: the words of the field.
    """
    found = [near for text, passages in tried for near in _near(text, passages, asked, lexicon)]
    best = max(found, key=lambda near: near.worth, default=None)
    return best if best is not None and best.worth >= _LEAST else None


def of_stage_first(verdict: Verdict, stage: Sequence[str]) -> Verdict:
    """The verdict with the section titled by the stage first, if it is about as near as the best answer."""
    passages = {passage.number: passage for passage in verdict.passages}
    best = passages[verdict.answers[0].number] if stage and verdict.answers else None
    if best is None or _is_titled(best, stage):
        return verdict
    spans = {span.number: span for span in verdict.answers}
    for passage in verdict.passages:
        if _is_titled(passage, stage) and passage.score >= _AS_NEAR * best.score:
            first = spans.get(passage.number) or _first_sentence(passage)
            if first is not None:
                others = [each for each in verdict.answers if each.number != passage.number]
                return msgspec.structs.replace(verdict, answers=(first, *others))
    return verdict


def without_answer(verdict: Verdict, near: Near | None) -> Verdict:
    """The verdict on a question that nothing answers, with the passage that is nearest to it, if there is one."""
    if near is None:
        return verdict
    others = [each for each in verdict.passages if each.evidence_id != near.passage.evidence_id]
    number = 1 + max((each.number for each in others), default=0)
    passage = msgspec.structs.replace(near.passage, number=number)
    span = msgspec.structs.replace(near.span, number=number)
    return msgspec.structs.replace(verdict, passages=(*others, passage), nearest=(span,))


def _near(text: str, passages: Sequence[Passage], asked: QuestionTopic, lexicon: Lexicon) -> Iterator[Near]:
    cited = {each.evidence_id for each in asked.cited}
    found = {each.evidence_id for each in passages}
    every = [*passages, *(each for each in asked.cited if each.evidence_id not in found)]
    numbered = [msgspec.structs.replace(each, number=at) for at, each in enumerate(every)]
    spans = {span.number: span for span in likely_answers(text, numbered, lexicon)}
    for passage in numbered:
        span = spans.get(passage.number) or _first_sentence(passage)
        if span is None:
            continue
        likely = max(span.probability, _OF_SCORE * passage.score * (passage.evidence_id in found))
        if asked.own and set(terms(f"{passage.title} {passage.text}")).isdisjoint(asked.own):
            likely *= _NOT_SHARED
        of_stage = _STAGE if _is_titled(passage, asked.stage) else 0.0
        current = _CURRENT_STAGE if _is_titled(passage, asked.current_stage) else 0.0
        yield Near(passage, span, likely + max(of_stage, current) + _CITED * (passage.evidence_id in cited))


def _words(rules: BusinessRules, stage: str) -> list[str]:
    return [stage, *rules.stages.get(stage, [])] if stage else []


def _is_condition(message: str, stage: Sequence[str]) -> bool:
    ends = [at + len(word) for word in map(plain, stage) if (at := message.find(word)) >= 0]
    return bool(ends) and all(_CONDITION.match(message, end) for end in ends)


def _is_titled(passage: Passage, words: Sequence[str]) -> bool:
    """Whether the title of a passage's section has one of these words."""
    return bool(find_words(passage.title.rpartition("·")[2], words))


def _first_sentence(passage: Passage) -> AnswerSpan | None:
    """The first sentence that may be quoted; None if there is none."""
    may_quote = analyse(passage.title, passage.text).sentences
    if not may_quote:
        return None
    return AnswerSpan(number=passage.number, index=0, sentence=may_quote[0].text, probability=0.0, covered=0.0)
