"""Features of the sentences that may answer a question; :mod:`.finder` weighs them."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import nlargest
from itertools import chain
from math import log

import msgspec

from wenmai.grounding.answers.passages import PassageText, Sentence
from wenmai.grounding.answers.question import Question, answer_pattern
from wenmai.grounding.answers.relevance import holds_value, lacks_word
from wenmai.grounding.types import AnswerType, Passage
from wenmai.text.cjk import has_cjk

_PRIOR = 20
"""Passages without the term that are added to those found, so that one passage alone is not its own measure."""

_SOFT = 0.15
"""Weight of a noun that is only asked about."""

_COMPARED, _LONGEST = 200, 8
"""Characters of a question whose longest run is sought in sentences, and the length from which longer is not better."""

_CONSIDERED = 7
"""Sentences of a passage that are looked at closely."""

_FAR = 1000
"""Distance of an answer from the question's words if none is beside it."""

_OF_BEST = ("beside", "sentence", "characters", "focus", "longest_run", "clause", "unit", "has_type", "near_type")
"""Features of sentences of which a passage has the highest."""

_LEADS = ("score", "beside")
"""Features of passages of which it also counts how much they exceed those of the others."""

_NUMBER_ZH = "[\\d〇零一二三四五六七八九十百千万亿两半数][多余来]?"
_NUMBER_EN = (
    r"(?:\d|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|twenty"
    r"|thirty|forty|fifty|sixty|hundred|thousand|million|half|both|no)\b)(?: \w+){0,2}? "
)
_ASKS = [(each, f"asks_{each}") for each in AnswerType]


class Weights(msgspec.Struct, frozen=True):
    """Rarity of what a question asks, by term; each mapping sums up to 1.

    Attributes:
        terms: its terms.
        units: its Chinese characters and its Latin words.
        focus: the terms of its focus.
        letters: its letters and digits.
        all: what the three mappings have.
        in_chinese: its terms in Chinese.
    """

    terms: Mapping[str, float]
    units: Mapping[str, float]
    focus: Mapping[str, float]
    letters: str
    all: frozenset[str]
    in_chinese: frozenset[str]


def weigh(question: Question, passages: Sequence[PassageText]) -> Weights:
    """Inverse document frequency over the passages found; a noun that is only asked about counts less."""

    def rarities(terms: Iterable[str]) -> dict[str, float]:
        found = {term: rarity(term) for term in terms}
        total = sum(found.values())
        return {term: weight / total for term, weight in found.items()}

    def rarity(term: str) -> float:
        frequency = sum([term in passage.terms for passage in passages])
        return log((len(passages) + _PRIOR + 1) / (frequency + 0.5)) * (_SOFT if term in question.soft else 1.0)

    in_chinese = frozenset(filter(has_cjk, question.terms))
    units = dict.fromkeys(chain.from_iterable(term if term in in_chinese else [term] for term in question.terms))
    return Weights(
        terms=rarities(question.terms),
        units=rarities(units),
        focus=rarities(question.focus),
        letters="".join(filter(str.isalnum, question.text))[:_COMPARED],
        all=question.focus.union(question.terms, units),
        in_chinese=in_chinese,
    )


class Candidate(msgspec.Struct, frozen=True):
    """A passage that may answer, with its features.

    Attributes:
        rank: its index among the passages found.
        features: of the passage.
        sentences: the index of each sentence that may be quoted as the answer, with its features.
    """

    rank: int
    features: dict[str, float]
    sentences: Sequence[tuple[int, Mapping[str, float]]]


def candidates(question: Question, texts: Sequence[PassageText], passages: Sequence[Passage]) -> list[Candidate]:
    """The passages that have a sentence that may answer.

    Args:
        question: parsed.
        texts: the passages, analysed.
        passages: the same as retrieved, best first.
    """
    found = list(_each(question, texts, passages))
    return [msgspec.structs.replace(each, features=each.features | _leads(each, found)) for each in found]


def _each(question: Question, texts: Sequence[PassageText], passages: Sequence[Passage]) -> Iterator[Candidate]:
    """The candidates, without the features that compare them."""
    weights = weigh(question, texts)
    similar = _similarities(passages)
    asks = {name: float(each is question.answer_type) for each, name in _ASKS}
    in_chinese = has_cjk(question.text)
    for rank, (text, passage) in enumerate(zip(texts, passages, strict=True)):
        sentences = list(_of_sentences(question, weights, text))
        if not sentences:
            continue
        others = max((each for at, each in enumerate(similar) if at != rank), default=similar[rank])
        of_passage = {
            "score": passage.score,
            "similarity": similar[rank],
            "more_similar": similar[rank] - others,
            "title": _share(weights.terms, text.title),
            "lacks_word": float(lacks_word(question, text)),
            "words": len(question.words) / _LONGEST,
            "sentences": log(len(text.sentences)),
            "rank": float(rank),
            "in_chinese": float(in_chinese),
            "other_language": float(has_cjk(passage.text) != in_chinese),
        }
        best = {name: max([each[name] for _, each in sentences]) for name in _OF_BEST}
        yield Candidate(rank, of_passage | best | asks, sentences)


def _leads(candidate: Candidate, found: Sequence[Candidate]) -> dict[str, float]:
    """By how much a candidate exceeds the best of the others in each of :data:`_LEADS`."""
    others = [each.features for each in found if each is not candidate]
    return {
        f"more_{name}": candidate.features[name] - max((each[name] for each in others), default=0.0) for name in _LEADS
    }


def _similarities(passages: Sequence[Passage]) -> list[float]:
    """The similarities; a passage without one, such as one cited before, counts as the least similar of the others."""
    least = min((each.similarity for each in passages if each.similarity is not None), default=0.0)
    return [least if each.similarity is None else each.similarity for each in passages]


def _of_sentences(question: Question, weights: Weights, text: PassageText) -> Iterator[tuple[int, dict[str, float]]]:
    """The features of the sentences that have most of the question, themselves or beside them."""
    terms, units = weights.terms, weights.units
    title = weights.all & text.title
    matched = [weights.all & covered_terms(question, sentence.folded, sentence.terms) for sentence in text.sentences]
    shares = [_share(units, own) for own in matched]
    for index in _most(shares):
        if not holds_value(question, text, index):
            continue
        sentence, own = text.sentences[index], matched[index]
        beside = own.union(title, *matched[max(0, index - 1) : index], *matched[index + 1 : index + 2])
        covered = _share(terms, own)
        yield (
            index,
            _of_answer(question, sentence, weights, covered)
            | {
                "sentence": covered,
                "characters": shares[index],
                "beside": _share(units, beside),
                "focus": _share(weights.focus, own) if weights.focus else 0.5,
                "longest_run": _longest_run(weights.letters, sentence.folded) / _LONGEST,
                "lead": 1 / (1 + index),
            },
        )


def _most(shares: Sequence[float]) -> list[int]:
    """The indexes of the sentences that are worth considering."""

    def promise(index: int) -> float:
        return shares[index] + max(shares[max(0, index - 1) : index + 2]) / 2

    return sorted(nlargest(_CONSIDERED, range(len(shares)), key=promise))


def _of_answer(question: Question, sentence: Sentence, weights: Weights, covered: float) -> dict[str, float]:
    """Whether the sentence has an answer of the expected type, and how near to the words of the question."""
    unit = 0.5 if not question.unit else float(_counts(question.unit, sentence.folded))
    pattern = answer_pattern(question.answer_type) if question.answer_type else None
    if pattern is None:
        return {"has_type": 0.5, "near_type": 0.5, "clause": covered, "unit": unit}
    answers = _positions(pattern, sentence.folded)
    asked = [at for term in weights.terms if term in sentence.terms and (at := sentence.folded.find(term)) >= 0]
    distance = min([abs(at - answer) for at in asked for answer in answers[:_COMPARED]], default=_FAR)
    clause = _clause_share(answers, question, sentence, weights)
    near = 1 / (1 + distance / 5) if answers else 0.0
    return {"has_type": float(bool(answers)), "near_type": near, "clause": clause, "unit": unit}


def _clause_share(answers: Sequence[int], question: Question, sentence: Sentence, weights: Weights) -> float:
    """The share of the question in the best clause with an expected answer, and the clause before it."""
    best, terms, in_chinese = 0.0, weights.terms, weights.in_chinese
    for start, end, text in sentence.clauses:
        at = bisect_left(answers, start)
        if at < len(answers) and answers[at] < end:
            present = frozenset([term for term in terms if term in (text if term in in_chinese else sentence.terms)])
            best = max(best, _share(terms, covered_terms(question, text, present)))
    return best


def _share(weights: Mapping[str, float], present: frozenset[str]) -> float:
    """The share of the question that is present."""
    return sum([weight for term, weight in weights.items() if term in present])


def covered_terms(question: Question, text: str, terms: frozenset[str]) -> frozenset[str]:
    """The terms, with those of the question's words that have a synonym in the text."""
    for synonym in question.synonyms:
        if not synonym.terms <= terms and _positions(synonym.pattern, text):
            terms |= synonym.terms
    return terms


@lru_cache(maxsize=8_192)
def _positions(pattern: re.Pattern[str], text: str) -> tuple[int, ...]:
    """Where the pattern matches; the same sentences of the evidence are looked at by many questions."""
    return tuple([match.start() for match in pattern.finditer(text)])


def _counts(unit: str, text: str) -> bool:
    """Whether a text has a number of that unit."""
    pattern = f"{_NUMBER_ZH}{re.escape(unit)}" if has_cjk(unit) else f"{_NUMBER_EN}{re.escape(unit[:-1] or unit)}"
    return re.search(pattern, text) is not None


def _longest_run(letters: str, text: str) -> int:
    """The length of the longest common run of characters, up to a bound."""
    longest = 0
    for start in range(len(letters)):
        while letters[start : start + longest + 1] in text and start + longest < len(letters):
            longest += 1
            if longest == _LONGEST:
                return longest
    return longest
