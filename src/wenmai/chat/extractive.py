"""Extractive answers, without a model: the best evidence, quoted verbatim between the persona's phrases.

Facts are quotes, so they are supported by construction. The persona's phrases are selected by the turn's number, so
that an answer can be reproduced.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wenmai.config.profile import Persona, Phrases, in_language
from wenmai.grounding.answerability import AnswerSpan, Verdict
from wenmai.grounding.claims.claim import NAMES
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.quoting import quote_sentences
from wenmai.grounding.relevance import QuestionTarget, overlap, parse_target
from wenmai.grounding.segments import Segment
from wenmai.grounding.support import facts_of
from wenmai.grounding.types import DialogueAct, Passage, PolicyMode
from wenmai.text.cjk import find_words, has_cjk

_PASSAGES = {"brief": 1, "normal": 1, "detailed": 3}
_SENTENCES = {"brief": 1, "normal": 3, "detailed": 3}
_LISTING = re.compile(
    r"哪些|哪几|都有什么|都有啥|列出|列举|\bwhat are\b|\bwhich are\b|\blist\b|\bname the\b|"
    r"\bwhat (?:\w+ ){0,3}are there\b",
    re.IGNORECASE,
)
_LIST_SENTENCE = 3
_MIN_TITLE_OVERLAP = 0.5


class ExtractiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and the numbers of the passages that it quotes, in the order of the text."""

    text: str
    cited: list[int]


class _Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A sentence that may be quoted.

    Attributes:
        index: its position in its passage.
        own_score: relevance of the sentence itself.
        passage_score: relevance of the title and the passage as a whole.
        leads: the passage as a whole is about the question, so it is quoted from its beginning.
    """

    passage: Passage
    index: int
    sentence: str
    own_score: float
    passage_score: float
    leads: bool
    answers: bool

    @property
    def score(self) -> float:
        return self.own_score + self.passage_score


def compose(
    *,
    question: str,
    dialogue_act: DialogueAct,
    verdict: Verdict,
    persona: Persona,
    language: str,
    verbosity: str,
    turn_id: int,
    lexicon: Lexicon = EMPTY,
) -> ExtractiveAnswer:
    """Compose an answer from its verdict alone.

    Args:
        question: as the user wrote it.
        dialogue_act: as classified.
        verdict: from :func:`wenmai.grounding.answerability.check_answerability`.
        persona: supplies the phrases.
        language: BCP 47 tag of the phrases; evidence is quoted in its own language.
        verbosity: ``brief`` quotes one sentence, ``normal`` the best passage, ``detailed`` up to three passages.
        turn_id: selects among the persona's phrases.
        lexicon: the words of the field.
    """
    if verdict.mode is PolicyMode.REFUSE:
        return _phrase_answer(persona.refusals, language, turn_id)
    phrases_of = {
        DialogueAct.GREETING: persona.greetings,
        DialogueAct.COURTESY: persona.courtesies,
        DialogueAct.CONTEXT_PREFERENCE: persona.acknowledgements,
        DialogueAct.CLARIFICATION: persona.clarifications,
        DialogueAct.OUT_OF_SCOPE: persona.out_of_scope,
    }
    if dialogue_act in phrases_of:
        return _phrase_answer(phrases_of[dialogue_act], language, turn_id)
    premise = _premise(verdict, language)
    answers = verdict.mode is PolicyMode.NORMAL
    quotes, cited = _quote_evidence(verdict, language, verbosity, lexicon) if answers else ("", [])
    if not quotes:
        topic = topic_of(question, language, lexicon, unsupported=verdict.unsupported_premises)
        phrase = pick_phrase(persona.conservative, language, turn_id).replace("{topic}", topic)
        return ExtractiveAnswer(text=_join([premise, phrase], language), cited=[])
    opening = "" if verdict.unsupported_premises else pick_phrase(persona.openings, language, turn_id)
    closing = "" if verbosity == "brief" else pick_phrase(persona.closings, language, turn_id)
    return ExtractiveAnswer(text=_join([opening, premise, quotes, closing], language), cited=cited)


def pick_phrase(phrases: Phrases, language: str, turn_id: int) -> str:
    """The phrase of a turn, in rotation; ``""`` if there is none."""
    options: list[str] = in_language(phrases, language) if phrases else []
    return options[turn_id % len(options)] if options else ""


def topic_of(question: str, language: str, lexicon: Lexicon, *, unsupported: Sequence[str] = ()) -> str:
    """The topic of a question: a name, an entity or its longest topic, else ``this matter``.

    It is inserted into a sentence, so it must be a noun phrase; no other word of a question is sure to be one.

    Args:
        question: as the user wrote it.
        language: BCP 47 tag of the answer.
        lexicon: the words of the field.
        unsupported: claims of the question that no evidence supports; never used as a topic.
    """
    english = language.startswith("en")
    claims = find_claims(question, lexicon)
    for claim in claims:
        if claim.kind in NAMES and claim.text not in unsupported and has_cjk(claim.text) != english:
            return claim.text
    bare = question
    for claim in reversed(claims):
        bare = f"{bare[: claim.start]} {bare[claim.end :]}"
    entity = lexicon.entities.search(bare)
    if entity and has_cjk(entity[0]) != english:
        return f"the {entity[0].lower()}" if english else entity[0]
    words = [word for word in find_words(bare, lexicon.topics) if has_cjk(word) != english]
    return max(words, key=len, default="this matter" if english else "这件事")


def _phrase_answer(phrases: Phrases, language: str, turn_id: int) -> ExtractiveAnswer:
    return ExtractiveAnswer(text=pick_phrase(phrases, language, turn_id), cited=[])


def _join(parts: Sequence[str], language: str) -> str:
    return (" " if language.startswith("en") else "").join(part for part in parts if part)


def _premise(verdict: Verdict, language: str) -> str:
    """Says that the evidence does not support the claims of the question."""
    if not verdict.unsupported_premises:
        return ""
    if language.startswith("en"):
        premises = ", ".join(f"“{premise}”" for premise in verdict.unsupported_premises)
        return f"You mention {premises}; the records at hand do not say so."
    premises = "、".join(f"“{premise}”" for premise in verdict.unsupported_premises)
    return f"您提到的{premises}，手边的记载没有这样写。"


def _quote_evidence(verdict: Verdict, language: str, verbosity: str, lexicon: Lexicon) -> tuple[str, list[int]]:
    target = parse_target(verdict.standalone_question, lexicon)
    if verdict.sources_conflict:
        return _quote_conflict(verdict, target, language)
    candidates = sorted(
        _candidates(verdict, target, lexicon),
        key=lambda candidate: (-candidate.answers, not _is_in_language(candidate.passage, language), -candidate.score),
    )
    best = candidates[0].score if candidates else 0.0
    order = list(dict.fromkeys(each.passage.number for each in candidates if each.score >= best / 2))
    quotes: list[str] = []
    cited: list[int] = []
    used: set[str] = set()
    for number in order[: _PASSAGES.get(verbosity, 1)]:
        of_passage = [each for each in candidates if each.passage.number == number and each.sentence not in used]
        selected = _select(of_passage, _SENTENCES.get(verbosity, 3))
        if selected:
            used |= {each.sentence for each in selected}
            quotes.append(quote_sentences(selected[0].passage, [each.sentence for each in selected], language))
            cited.append(number)
    return _join(quotes, language), cited


def _candidates(verdict: Verdict, target: QuestionTarget, lexicon: Lexicon) -> Iterator[_Candidate]:
    """The sentences of the passages that may be quoted, scored by relevance to the question."""
    answers = {(answer.number, answer.sentence): answer for answer in verdict.answers}
    listing = _LISTING.search(verdict.standalone_question) is not None
    for passage in verdict.passages:
        facts = facts_of(passage, lexicon)
        in_title = overlap(target, facts.title)
        same_position = bool(target.ordinals & facts.title.ordinals)
        named = sum(facts.supports(name) for name in target.names)
        passage_score = 0.5 * in_title + 0.5 * passage.score + same_position + named - 0.5 * (not passage.verified)
        for index, sentence in enumerate(facts.sentences):
            answer = answers.get((passage.number, sentence.text))
            own_score = overlap(target, sentence) + 0.5 * bool(target.events & sentence.events) + _figure_bonus(answer)
            own_score += bool(target.ordinals & sentence.ordinals) + (listing and _is_list(sentence))
            yield _Candidate(
                passage=passage,
                index=index,
                sentence=sentence.text,
                own_score=own_score,
                passage_score=passage_score,
                leads=verdict.answer_type is None and not listing and in_title >= _MIN_TITLE_OVERLAP,
                answers=answer is not None,
            )


def _figure_bonus(answer: AnswerSpan | None) -> float:
    """A year answers better than a season, and any figure better than none."""
    if answer is None:
        return 0.0
    return 0.5 if any(char.isdigit() for claim in answer.claims for char in claim.value) else 0.25


def _is_list(sentence: Segment) -> bool:
    parts = sum(sentence.text.count(mark) for mark in ("、", "，", ", ", "；"))
    return parts >= _LIST_SENTENCE or len(sentence.ordinals) >= _LIST_SENTENCE


def _select(candidates: Sequence[_Candidate], limit: int) -> list[_Candidate]:
    """Sentences to quote from one passage, in order: its beginning, or those that score close to its best."""
    if candidates and candidates[0].leads:
        return sorted(candidates, key=lambda each: each.index)[:limit]
    ranked = sorted(candidates, key=lambda each: (-each.answers, -each.own_score, each.index))
    kept = [each for each in ranked[:limit] if each is ranked[0] or each.own_score > ranked[0].own_score / 2]
    return sorted(kept, key=lambda each: each.index)


def _quote_conflict(verdict: Verdict, target: QuestionTarget, language: str) -> tuple[str, list[int]]:
    """Quote the answer of each passage, and say that they differ."""
    numbers = list(dict.fromkeys(answer.number for answer in verdict.answers))
    passages = {passage.number: passage for passage in verdict.passages}
    quotes: list[str] = []
    for number in numbers:
        sentences = [answer.sentence for answer in verdict.answers if answer.number == number]
        best = max(sentences, key=lambda sentence: overlap(target, Segment(sentence)))
        quotes.append(quote_sentences(passages[number], [best], language))
    lead = "The sources differ here." if language.startswith("en") else "几处记载不一致，一并说来。"
    return _join([lead, *quotes], language), numbers


def _is_in_language(passage: Passage, language: str) -> bool:
    return passage.language.partition("-")[0] == language.partition("-")[0]
