"""Extractive answers, without a model: the best evidence, quoted verbatim between the persona's phrases.

Facts are quotes, so they are supported by construction. The persona's phrases are selected by the turn's number, so
that an answer can be reproduced.
"""

import re
from collections.abc import Sequence

import msgspec

from wenmai.config.profile import Persona
from wenmai.config.texts import Phrases, in_language
from wenmai.grounding.answerability import Verdict
from wenmai.grounding.answers.finder import AnswerSpan
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.claims.claim import NAMES
from wenmai.grounding.claims.extraction import find_claims
from wenmai.grounding.lexicon import EMPTY, Lexicon
from wenmai.grounding.quoting import quote_sentences
from wenmai.grounding.types import AnswerType, DialogueAct, Passage, PolicyMode
from wenmai.text.cjk import find_words, has_cjk
from wenmai.text.tokens import estimate_tokens

_PASSAGES = {"brief": 1, "normal": 1, "detailed": 3}
_TOKENS = 200
"""Of a quote, unless its best sentence alone is longer."""
_VALUE_TOKENS = 100
"""Of a quote that answers with a value."""
_COVERED = 0.7
"""The share of a question's words from which a sentence with a value needs no other beside it."""
_VALUES = frozenset({AnswerType.WHEN, AnswerType.WHO, AnswerType.HOW_MANY, AnswerType.HOW_LONG})
_REFERS_BACK = re.compile(
    r"(?:[^，。]{0,4}[它他她此这那]|(?:It|He|She|They|This|These|That|Those|Its|His|Her|Their)\b)"
)


class ExtractiveAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer and the numbers of the passages that it quotes, in the order of the text."""

    text: str
    cited: list[int]


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
        verbosity: ``brief`` quotes one sentence, ``normal`` from the best passage, ``detailed`` from up to three.
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
    quotes, cited = _quote_evidence(verdict, language, verbosity) if answers else ("", [])
    if not quotes:
        topic = topic_of(question, language, lexicon, unsupported=verdict.unsupported_premises)
        phrase = pick_phrase(persona.conservative, language, turn_id).replace("{topic}", topic)
        near, cited = _quote_nearest(verdict, persona, language, turn_id)
        return ExtractiveAnswer(text=_join([premise, phrase, near], language), cited=cited)
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


def _quote_nearest(verdict: Verdict, persona: Persona, language: str, turn_id: int) -> tuple[str, list[int]]:
    """The passages nearest to a question that none answers, introduced as such; nothing without the persona's words."""
    passages = {passage.number: passage for passage in verdict.passages}
    introduction = pick_phrase(persona.nearest or {}, language, turn_id)
    if not introduction or not verdict.nearest:
        return "", []
    quotes = []
    for each in verdict.nearest:
        passage = passages[each.number]
        sentences = [sentence.text for sentence in analyse(passage.title, passage.text).sentences]
        selected = _select(verdict, each, sentences, "normal")
        quotes.append(quote_sentences(passage, _excerpts(sentences, selected), language))
    return _join([introduction, *quotes], language), [each.number for each in verdict.nearest]


def _quote_evidence(verdict: Verdict, language: str, verbosity: str) -> tuple[str, list[int]]:
    passages = {passage.number: passage for passage in verdict.passages}
    if verdict.sources_conflict:
        lead = "The sources differ here." if language.startswith("en") else "几处记载不一致，一并说来。"
        quotes = [quote_sentences(passages[each.number], [each.sentence], language) for each in verdict.answers]
        return _join([lead, *quotes], language), [each.number for each in verdict.answers]
    order = sorted(verdict.answers, key=lambda each: not _is_in_language(passages[each.number], language))
    quotes, cited = [], []
    used: set[str] = set()
    for answer in order[: _PASSAGES.get(verbosity, 1)]:
        passage = passages[answer.number]
        sentences = [sentence.text for sentence in analyse(passage.title, passage.text).sentences]
        selected = [each for each in _select(verdict, answer, sentences, verbosity) if sentences[each] not in used]
        if selected:
            used.update(sentences[each] for each in selected)
            quotes.append(quote_sentences(passage, _excerpts(sentences, selected), language))
            cited.append(answer.number)
    return _join(quotes, language), cited


def _select(verdict: Verdict, answer: AnswerSpan, sentences: Sequence[str], verbosity: str) -> list[int]:
    """Sentences to quote from one passage, in order: the one that answers, and while there is room others that suit."""
    has_value = verdict.answer_type in _VALUES
    if verbosity == "brief" or (has_value and answer.has_type and answer.covered >= _COVERED):
        return [answer.index]
    before, after = answer.index - 1, answer.index + 1
    refers_back = [before] if _REFERS_BACK.match(answer.sentence) else []
    order = [*refers_back, *answer.ranking[:2], after, before, *answer.ranking]
    room = _VALUE_TOKENS if has_value else _TOKENS
    selected: set[int] = set()
    for index in dict.fromkeys([answer.index, *(each for each in order if 0 <= each < len(sentences))]):
        tokens = estimate_tokens(sentences[index])
        if index == answer.index or tokens <= room:
            selected.add(index)
            room -= tokens
    return sorted(selected)


def _excerpts(sentences: Sequence[str], selected: Sequence[int]) -> list[str]:
    """The selected sentences, with an ellipsis where others are left out between them."""
    ellipsis = "……" if has_cjk(sentences[selected[0]]) else "… "
    return [
        f"{ellipsis if at and selected[at - 1] + 1 < index else ''}{sentences[index]}"
        for at, index in enumerate(selected)
    ]


def _is_in_language(passage: Passage, language: str) -> bool:
    return passage.language.partition("-")[0] == language.partition("-")[0]
