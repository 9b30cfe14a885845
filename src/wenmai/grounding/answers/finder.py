"""Finds the sentences of the evidence that answer a question, with the probability that they do.

Two linear models over the features of :mod:`.features`, in ``data/scorer.yaml``: one gives the probability that a
passage answers the question, the other finds the sentence of it that does.
"""

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from math import exp

import msgspec
import yaml

from wenmai.grounding.answers.features import Candidate, candidates, covered_terms
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import Question
from wenmai.grounding.claims.counts import ordinals
from wenmai.grounding.types import Passage
from wenmai.text.cjk import normalise, terms
from wenmai.text.folding import fold

ANSWERED = 0.5
"""The probability from which a passage answers."""

MAY_ANSWER = 0.25
"""The probability from which a model is asked to decide.

On four sets of ``tests/grounding``, with vectors, more than half of the questions that can be
answered reach it, and two fifths of the others.
"""


class Scorer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights, by feature, of a sentence within its passage, and of whether a passage answers."""

    sentence: dict[str, float]
    passage: dict[str, float]
    constant: float

    def ranking(self, candidate: Candidate) -> list[tuple[int, Mapping[str, float]]]:
        """The indexes of the sentences and their features, the one that suits best first."""
        return sorted(candidate.sentences, key=lambda each: (-_weighted(self.sentence, each[1]), each[0]))

    def probability(self, candidate: Candidate) -> float:
        """The probability, 0 to 1, that a passage answers."""
        return 1 / (1 + exp(-self.constant - _weighted(self.passage, candidate.features)))


class AnswerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The best sentence of a passage.

    Attributes:
        number: of the passage.
        index: of the sentence among those of the passage that may be quoted.
        sentence: verbatim.
        ranking: indexes of the sentences that suit best, best first.
        has_type: whether the sentence has a value of the type asked about.
        probability: that the passage answers the question, 0 to 1.
        covered: the share of the question's words that the sentence has, 0 to 1.
    """

    number: int
    index: int
    sentence: str
    ranking: tuple[int, ...] = ()
    has_type: bool = True
    probability: float
    covered: float


def find_answers(question: Question, passages: Sequence[Passage]) -> list[AnswerSpan]:
    """The best sentence of each passage, best first.

    Those of passages whose title has the asked list position lead, then, if the question only names something, those
    of sections titled so. Where the probabilities hardly differ, the passage with the higher score precedes.

    Args:
        question: parsed.
        passages: in the order retrieved, with their scores.
    """
    texts = [analyse(passage.title, passage.text) for passage in passages]
    scorer = _scorers()["vectors" if any(each.similarity is not None for each in passages) else "words"]
    asked = ordinals(question.text)

    def order(found: tuple[Candidate, float]) -> tuple[bool, int, float, float, int]:
        candidate, probability = found
        passage = passages[candidate.rank]
        listed = asked and not asked.isdisjoint(ordinals(passage.title))
        titled = 0 if question.answer_type else _in_title(question, passage)
        return not listed, -titled, -round(probability, 1), -passage.score, candidate.rank

    found = [(each, scorer.probability(each)) for each in candidates(question, texts, passages)]
    return [
        AnswerSpan(
            number=passages[each.rank].number,
            index=index,
            sentence=texts[each.rank].sentences[index].text,
            ranking=tuple(at for at, _ in ranking),
            has_type=features["has_type"] > 0,
            probability=probability,
            covered=features["characters"],
        )
        for each, probability in sorted(found, key=order)
        for ranking in [scorer.ranking(each)]
        for index, features in ranking[:1]
    ]


def _in_title(question: Question, passage: Passage) -> int:
    """How many of the question's terms the section's title has, if those it lacks are in its source's name; else 0."""
    section, in_section, in_source = _titles(passage.title, passage.source_ref)
    found = covered_terms(question, section, in_section)
    missing = [term for term in question.terms if term not in found]
    return len(question.terms) - len(missing) if in_source.issuperset(missing) else 0


@lru_cache(maxsize=512)
def _titles(title: str, source_ref: str) -> tuple[str, frozenset[str], frozenset[str]]:
    """The section's title, normalised, its terms, and those of its source's name; the same passages come again."""
    section = title.replace(source_ref, " ") if source_ref else title
    return fold(normalise(section)), frozenset(terms(section)), frozenset(terms(source_ref))


def _weighted(weights: Mapping[str, float], values: Mapping[str, float]) -> float:
    return sum([weight * values[name] for name, weight in weights.items()])


@cache
def _scorers() -> Mapping[str, Scorer]:
    """The weights for passages found by words alone, and by words and vectors."""
    raw = yaml.safe_load((files(__package__) / "data" / "scorer.yaml").read_text(encoding="utf-8"))
    return msgspec.convert(raw, dict[str, Scorer])
