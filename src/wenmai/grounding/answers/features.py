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
from wenmai.grounding.types import Passage
from wenmai.text.cjk import has_cjk, query_terms

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

_NUMBER_ZH = "[\\d〇零一二三四五六七八九十百千万亿两半数][多余来]?"
_NUMBER_EN = (
    r"(?:\d|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|twenty"
    r"|thirty|forty|fifty|sixty|hundred|thousand|million|half|both|no)\b)(?: \w+){0,2}? "
)
_CLAUSE = re.compile(r"[^,;:，；：]+[,;:，；：]?")


class Weights(msgspec.Struct, frozen=True):
    """Rarity of what a question asks, by term; each mapping sums up to 1.

    Attributes:
        terms: its terms.
        units: its Chinese characters and its Latin words.
        words: the terms of each word; without nouns that are only asked about.
        focus: the terms of its focus.
        letters: its letters and digits.
    """

    terms: Mapping[str, float]
    units: Mapping[str, float]
    words: Sequence[Mapping[str, float]]
    focus: Mapping[str, float]
    letters: str


def weigh(question: Question, passages: Sequence[PassageText]) -> Weights:
    """Inverse document frequency over the passages found; a noun that is only asked about counts less."""

    def rarities(terms: Iterable[str]) -> dict[str, float]:
        found = {term: rarity(term) for term in terms}
        total = sum(found.values())
        return {term: weight / total for term, weight in found.items()}

    def rarity(term: str) -> float:
        frequency = sum(term in passage.terms for passage in passages)
        return log((len(passages) + _PRIOR + 1) / (frequency + 0.5)) * (_SOFT if term in question.soft else 1.0)

    terms = frozenset(question.terms)
    units = dict.fromkeys(chain.from_iterable(term if has_cjk(term) else [term] for term in question.terms))
    words = ([term for term in query_terms(word) if term in terms] for word in question.words)
    return Weights(
        terms=rarities(question.terms),
        units=rarities(units),
        words=[rarities(word) for word in words if word and not question.soft.issuperset(word)],
        focus=rarities(question.focus),
        letters="".join(char for char in question.text if char.isalnum())[:_COMPARED],
    )


def features(
    question: Question, weights: Weights, texts: Sequence[PassageText], passages: Sequence[Passage]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """The features of each sentence, with the index of its passage and its own.

    Args:
        question: parsed.
        weights: of the question.
        texts: the passages, analysed.
        passages: the same as retrieved, best first.
    """
    for rank, (text, passage) in enumerate(zip(texts, passages, strict=True)):
        retrieved = {"rank": 1 / (1 + rank), "score": passage.score, "nearness": passage.nearness or 0.0}
        for index, own in _of_sentences(question, weights, text):
            yield rank, index, own | retrieved | {"lead": 1 / (1 + index)}


def _of_sentences(question: Question, weights: Weights, text: PassageText) -> Iterator[tuple[int, dict[str, float]]]:
    """The features of the sentences that have most of the question, themselves or beside them."""
    terms, units = weights.terms, weights.units
    matched = [_with(question, sentence.folded, sentence.terms) for sentence in text.sentences]
    whole = text.terms.union(*matched)
    missing = max((weight for unit, weight in units.items() if unit not in whole), default=0.0)
    of_passage = {
        "passage": _share(terms, whole),
        "characters_in_passage": _share(units, whole),
        "rarest_missing": missing / max(units.values(), default=1.0),
        "title": _share(terms, text.title),
    }
    shares = [_share(units, own) for own in matched]
    for index in _most(shares):
        sentence, own = text.sentences[index], matched[index]
        beside = own.union(text.title, *matched[max(0, index - 1) : index], *matched[index + 1 : index + 2])
        covered = _share(terms, own)
        yield (
            index,
            of_passage
            | _of_answer(question, sentence, terms, covered)
            | {
                "sentence": covered,
                "beside": _share(terms, own | text.title) - covered,
                "characters": shares[index],
                "characters_beside": _share(units, beside),
                "weakest_word": min((_share(word, beside) for word in weights.words), default=1.0),
                "absent": sum(beside.isdisjoint(chain(word, *word)) for word in weights.words)
                / (len(weights.words) or 1),
                "focus": _share(weights.focus, own) if weights.focus else 0.5,
                "focus_beside": _share(weights.focus, beside) if weights.focus else 0.5,
                "synonyms_missing": sum(not each.terms <= own for each in question.synonyms)
                / (len(question.synonyms) or 1),
                "longest_run": _longest_run(weights.letters, sentence.folded) / _LONGEST,
            },
        )


def _most(shares: Sequence[float]) -> list[int]:
    """The indexes of the sentences that are worth considering."""

    def promise(index: int) -> float:
        return shares[index] + max(shares[max(0, index - 1) : index + 2]) / 2

    return sorted(nlargest(_CONSIDERED, range(len(shares)), key=promise))


def _of_answer(question: Question, sentence: Sentence, terms: Mapping[str, float], covered: float) -> dict[str, float]:
    """Whether the sentence has an answer of the expected type, and how near to the words of the question."""
    unit = 0.5 if not question.unit else float(_counts(question.unit, sentence.folded))
    pattern = answer_pattern(question.answer_type) if question.answer_type else None
    if pattern is None:
        return {"has_type": 0.5, "near_type": 0.5, "clause": covered, "unit": unit}
    answers = _positions(pattern, sentence.folded)
    asked = [at for at in (sentence.folded.find(term) for term in terms if term in sentence.terms) if at >= 0]
    distance = min((abs(at - answer) for at in asked for answer in answers[:_COMPARED]), default=_FAR)
    clause = _clause_share(answers, question, sentence, terms)
    near = 1 / (1 + distance / 5) if answers else 0.0
    return {"has_type": float(bool(answers)), "near_type": near, "clause": clause, "unit": unit}


def _clause_share(answers: Sequence[int], question: Question, sentence: Sentence, terms: Mapping[str, float]) -> float:
    """The share of the question in the best clause with an expected answer, and the clause before it."""
    best, previous = 0.0, ""
    for clause in _CLAUSE.finditer(sentence.folded):
        at = bisect_left(answers, clause.start())
        if at < len(answers) and answers[at] < clause.end():
            text = previous + clause[0]
            present = {term for term in terms if term in (text if has_cjk(term) else sentence.terms)}
            best = max(best, _share(terms, _with(question, text, frozenset(present))))
        previous = clause[0]
    return best


def _share(weights: Mapping[str, float], present: frozenset[str]) -> float:
    """The share of the question that is present."""
    return sum([weight for term, weight in weights.items() if term in present])


def _with(question: Question, text: str, terms: frozenset[str]) -> frozenset[str]:
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
        while longest < _LONGEST and start + longest < len(letters) and letters[start : start + longest + 1] in text:
            longest += 1
    return longest
