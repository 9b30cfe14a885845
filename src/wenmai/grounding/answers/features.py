"""Features of the sentences that may answer a question."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from math import log

import msgspec

from wenmai.grounding.answers.passages import PassageText, Sentence
from wenmai.grounding.answers.question import Question, answer_pattern
from wenmai.grounding.types import Passage
from wenmai.retrieval.ranking import SEMANTIC_WEIGHT
from wenmai.text.cjk import has_cjk, query_terms

PRIOR = 20
"""Passages without the term that are added to those found, so that one passage alone is not its own measure."""

class Weights(msgspec.Struct, frozen=True):
    """Rarity of a question's terms, and of its characters and Latin words, by term."""

    terms: Mapping[str, float]
    units: Mapping[str, float]


def weigh(question: Question, passages: Sequence[PassageText]) -> Weights:
    """Inverse document frequency over the passages found; a noun that is only asked about counts less."""

    def rarity(term: str) -> float:
        frequency = sum(term in passage.terms for passage in passages)
        weight = log((len(passages) + PRIOR + 1) / (frequency + 0.5))
        return weight * (0.3 if term in question.soft else 1.0)

    units = dict.fromkeys(chain.from_iterable(term if has_cjk(term) else [term] for term in question.terms))
    return Weights({term: rarity(term) for term in question.terms}, {unit: rarity(unit) for unit in units})


def features(
    question: Question, weights: Weights, texts: Sequence[PassageText], passages: Sequence[Passage]
) -> Iterator[tuple[int, int, dict[str, float]]]:
    """The index of the passage, that of the sentence, and the features of each sentence."""
    pattern = answer_pattern(question.answer_type) if question.answer_type else None
    terms, units = weights.terms, weights.units
    per_term, per_unit = 1 / (sum(terms.values()) or 1), 1 / (sum(units.values()) or 1)
    largest = max(units.values(), default=1.0)
    letters = "".join(char for char in question.text if char.isalnum())
    words = [[t for t in query_terms(w) if t in terms] for w in question.words]
    for rank, passage in enumerate(texts):
        expanded = [_with_synonyms(question, sentence.folded, sentence.terms) for sentence in passage.sentences]
        whole = passage.terms.union(*expanded)
        in_passage = _sum(terms, whole) * per_term
        units_in_passage = _sum(units, whole) * per_unit
        missing = max((weight for unit, weight in units.items() if unit not in whole), default=0.0) / largest
        title = _sum(terms, passage.title) * per_term
        for index, sentence in enumerate(passage.sentences):
            own = expanded[index]
            beside = own.union(passage.title, *expanded[max(0, index - 1) : index], *expanded[index + 1 : index + 2])
            covered = _sum(terms, own) * per_term
            has_type, near = _expected(pattern, sentence, terms)
            weakest = min((sum(terms[t] for t in w if t in beside) / sum(terms[t] for t in w) for w in words if w), default=1.0)
            shares = [sum(terms[t] for t in w if t in own) / sum(terms[t] for t in w) for w in words if w]
            absent = sum(not any(t in beside for t in w) and not any(c in beside for c in chain.from_iterable(w)) for w in words if w) / (len(words) or 1)
            focus = {t: weights.terms.get(t, 1.0) for t in question.focus}
            per_focus = sum(focus.values())
            focused = _sum(focus, own) / per_focus if per_focus else 0.5
            focused_beside = _sum(focus, beside) / per_focus if per_focus else 0.5
            unmatched = [not (one.terms <= own) and not one.pattern.search(sentence.folded) for one in question.synonyms]
            synonyms_missing = sum(unmatched) / len(unmatched) if unmatched else 0.0
            clause = _clause_cover(pattern, question, sentence, terms) * per_term if pattern else covered
            yield rank, index, {
                "sentence": covered,
                "beside": _sum(terms, own | passage.title) * per_term - covered,
                "passage": in_passage,
                "characters": _sum(units, own) * per_unit,
                "characters_beside": _sum(units, beside) * per_unit,
                "characters_in_passage": units_in_passage,
                "rarest_missing": missing,
                "weakest_word": weakest,
                "absent": absent,
                "focus": focused,
                "focus_beside": focused_beside,
                "synonyms_missing": synonyms_missing,
                "clause": clause,
                "longest_run": min(_longest_run(letters, sentence.folded), 8) / 8,
                "has_type": has_type,
                "near_type": near,
                "unit": float(counts(question, sentence)) if question.unit else 0.5,
                "lead": 1 / (1 + index),
                "title": title,
                "rank": 1 / (1 + rank),
                "score": coverage(passages[rank]),
                "nearness": passages[rank].nearness or 0.0,
            }


_NUMBER_EN = (
    r"\d|\b(?:an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|twenty|thirty"
    r"|forty|fifty|sixty|hundred|thousand|million|half|both|no)\b"
)
_CLAUSE = re.compile(r"[^,;:，；：]+[,;:，；：]?")


def _clause_cover(pattern, question, sentence, terms) -> float:
    """The best covered clause with an expected value, with the clause before it."""
    best = 0.0
    previous = ""
    for match in _CLAUSE.finditer(sentence.folded):
        clause = match[0]
        if pattern.search(clause):
            text = previous + clause
            matched = {t for t in terms if t in text} | {t for t in terms if not has_cjk(t) and t in sentence.terms}
            for one in question.synonyms:
                if one.pattern.search(text):
                    matched |= one.terms
            best = max(best, _sum(terms, matched))
        previous = clause
    return best


def counts(question: Question, sentence: Sentence) -> bool:
    """Whether a sentence has a number of the unit that is asked about."""
    unit = question.unit
    if has_cjk(unit):
        return re.search(rf"[\d〇零一二三四五六七八九十百千万亿两半数][多余来]?{re.escape(unit)}", sentence.folded) is not None
    found = re.search(rf"(?:{_NUMBER_EN})(?: \w+){{0,2}}? {re.escape(unit[:-1] or unit)}", sentence.folded)
    return found is not None


def coverage(passage: Passage) -> float:
    """The lexical part of a passage's score."""
    part = SEMANTIC_WEIGHT * (passage.nearness or 0.0)
    return (passage.score - part) / (1 - part)


def _sum(weights: Mapping[str, float], present: frozenset[str]) -> float:
    return sum(weight for term, weight in weights.items() if term in present)


def _with_synonyms(question: Question, folded: str, terms: frozenset[str]) -> frozenset[str]:
    for synonym in question.synonyms:
        if not synonym.terms <= terms and synonym.pattern.search(folded):
            terms |= synonym.terms
    return terms


def _expected(pattern, sentence: Sentence, terms: Iterable[str]) -> tuple[float, float]:
    if pattern is None:
        return 0.5, 0.5
    starts = [match.start() for match in pattern.finditer(sentence.folded)]
    if not starts:
        return 0.0, 0.0
    positions = [sentence.folded.find(term) for term in terms if term in sentence.terms]
    distance = min((abs(one - other) for one in positions if one >= 0 for other in starts), default=1000)
    return 1.0, 1 / (1 + distance / 5)


def _longest_run(letters: str, text: str) -> int:
    """The length of the longest common run of characters, up to 8."""
    longest = 0
    for start in range(len(letters)):
        while longest < 8 and start + longest < len(letters) and letters[start : start + longest + 1] in text:
            longest += 1
    return longest
