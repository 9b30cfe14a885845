"""Whether a sentence gives a date, a number or a person for what the question asks about, and not for another thing.

A year answers *when was the tower built* only in a clause about building the tower, not beside a flood, a repair or
the lamp in front of the tower.
"""

import re
from collections.abc import Iterator
from itertools import pairwise, zip_longest

from wenmai.grounding.answers.passages import PassageText, Sentence
from wenmai.grounding.answers.question import Question, Synonym, answer_pattern, any_event
from wenmai.grounding.types import AnswerType
from wenmai.text.cjk import content_words, has_cjk, query_terms

_TIMES_AND_COUNTS = frozenset({AnswerType.WHEN, AnswerType.HOW_MANY, AnswerType.HOW_LONG})
_VALUES = _TIMES_AND_COUNTS | {AnswerType.WHERE}
_SHORT = 2
"""Words of a question that are all needed."""

_EARLIER = 100
"""Characters before a clause in which its subject is sought."""

_CLAUSE = re.compile(r"[^,;:，；：。]+")
_BARE = 2
"""Characters beside its value from which a clause says something of its own."""

_MODIFIES_ZH = re.compile(r"[一-鿿]{0,2}[前后旁边里外上下内侧口]?[面边]?的[一-鿿]")
_MODIFIES_EN = re.compile(
    r"\w+ (?:(?:in|near|beside|of|by|at|behind|before|opposite|next|outside|inside|across|under|above|on|to|front) )+"
    r"(?:the |a |an )?(?:\w+ )?$"
)
_ADVERBS_ZH = re.compile(
    r"[始初原曾又再已共约仅即便就才乃后先于在由从至到自是为被将了的年月日间时代朝中]|[\d〇零一二三四五六七八九十百]"
)


def holds_value(question: Question, passage: PassageText, index: int) -> bool:
    """Whether a sentence holds a value of the expected type for the event and the subject that are asked about."""
    sentence = passage.sentences[index]
    if question.values and not all(value.search(sentence.folded) for value in question.values):
        return False
    if question.answer_type not in _VALUES and question.answer_type is not AnswerType.WHO:
        return True
    events = [each for each in question.synonyms if each.is_event]
    if question.answer_type is AnswerType.WHO:
        return _says_more(question, sentence, events)
    pattern = answer_pattern(question.answer_type)
    if pattern is None or not pattern.search(sentence.folded):
        return False
    if question.answer_type is AnswerType.WHERE or not events:
        return True
    subjects = _subjects(question, events)
    titled = any(event.pattern.search(passage.heading) for event in events)
    return any(
        (titled and not any_event(clause)) or any(_happens(event, subjects, clause, earlier) for event in events)
        for clause, earlier in _clauses_with(pattern, sentence.folded)
    )


def _clauses_with(pattern: re.Pattern[str], text: str) -> Iterator[tuple[str, str]]:
    """The clauses that match, each with the next one if it has no event of its own, and the text before it."""
    clauses = list(_CLAUSE.finditer(text))
    for clause, following in zip_longest(clauses, clauses[1:]):
        if pattern.search(clause[0]):
            alone = following is None or any_event(clause[0])
            yield text[clause.start() : clause.end() if alone else following.end()], text[: clause.start()][-_EARLIER:]


def lacks_word(question: Question, passage: PassageText) -> bool:
    """Whether a passage has no trace of a word that a question cannot do without.

    Each word of a short question; of a longer one the object of *who*, or in Chinese the last word, which usually says
    what happened.
    """
    words = [word for word in question.words if not question.soft.issuperset([*query_terms(word), *word])]
    if question.unit:
        return False
    if question.answer_type is AnswerType.WHO and len(words) > _SHORT:
        events = {each.word for each in question.synonyms if each.is_event}
        words = [word for event, word in pairwise(words) if event in events]
    elif len(words) > _SHORT:
        words = [word for word in words[-1:] if has_cjk(word) and question.answer_type in _TIMES_AND_COUNTS]
    return any(_is_absent(word, question, passage) for word in words if len(word) > 1)


def _is_absent(word: str, question: Question, passage: PassageText) -> bool:
    """Whether neither the word, nor one of its characters in Chinese, nor a synonym is in a passage."""
    parts = frozenset([*query_terms(word), *word] if has_cjk(word) else query_terms(word))
    return passage.terms.isdisjoint(parts) and not any(
        each.pattern.search(sentence.folded)
        for each in question.synonyms
        if not parts.isdisjoint(each.terms)
        for sentence in passage.sentences
    )


def _says_more(question: Question, sentence: Sentence, events: list[Synonym]) -> bool:
    """Whether a sentence has words beside those of the question and numbers, such as a name."""
    rest = sentence.folded
    for event in events:
        rest = event.pattern.sub(" ", rest)
    if has_cjk(rest):
        rest = _ADVERBS_ZH.sub("", rest)
        return sum(char.isalpha() and char not in question.text for char in rest) >= _BARE
    return any(not word[0].isdigit() and word not in question.text for word in content_words(rest))


def _subjects(question: Question, events: list[Synonym]) -> list[str]:
    """The content words that are no event, each without the events in it."""
    words = " ".join(word for word in question.words)
    for event in events:
        words = words.replace(event.word, " ")
    return [word for word in content_words(words) if len(word) > 1 or not has_cjk(word)]


def _happens(event: Synonym, subjects: list[str], clause: str, earlier: str) -> bool:
    """Whether the clause has the event, and names no other subject."""
    match = event.pattern.search(clause)
    if match is None:
        return False
    if not subjects:
        return True
    before, after = clause[: match.start()], clause[match.end() :]
    if not has_cjk(clause):
        return not any(_MODIFIES_EN.search(before[: before.find(each)]) for each in subjects if each in before)
    named = [each for each in subjects if each in before]
    if named:
        return any(not _MODIFIES_ZH.match(before, before.find(each) + len(each)) for each in named)
    if any(each in earlier for each in subjects):
        return True
    return any(each in after for each in subjects) or len(_ADVERBS_ZH.sub("", before).strip()) < _BARE
