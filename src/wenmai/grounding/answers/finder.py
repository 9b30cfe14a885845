"""Finds the sentences of the evidence that answer a question, with the probability that they do.

Two linear models over the features of :mod:`.features`, in ``data/scorer.yaml``: the first ranks the sentences of all
passages, the second decides from the best sentence of a passage whether that answers the question.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import exp, log

import msgspec
import yaml

from wenmai.grounding.answers.features import features, weigh
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import Question
from wenmai.grounding.answers.relevance import holds_value
from wenmai.grounding.claims.counts import ordinals
from wenmai.grounding.types import Passage

ANSWERED = 0.5
"""The probability from which a sentence answers."""

MAY_ANSWER = 0.15
"""The probability from which a model is asked to decide.

On the tuned half of ``tests/grounding``, with vectors, two thirds of the questions that can be answered reach it, and a
third of the others.
"""


class Scorer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the two models, by feature, and the probability from which a question is answered."""

    rank: dict[str, float]
    decide: dict[str, float]
    constant: float
    answered: float

    def ranking(self, values: Mapping[str, float]) -> float:
        """How well a sentence suits, for comparison with others."""
        return sum(weight * values[name] for name, weight in self.rank.items())

    def probability(self, values: Mapping[str, float]) -> float:
        """The probability, 0 to 1, that a sentence answers; half where the file says that it does."""
        evidence = self.constant + sum(weight * values[name] for name, weight in self.decide.items())
        return 1 / (1 + exp(-evidence - log(1 / self.answered - 1)))


class AnswerSpan(msgspec.Struct, frozen=True, kw_only=True):
    """The best sentence of a passage.

    Attributes:
        number: of the passage.
        index: of the sentence among those of the passage that may be quoted.
        sentence: verbatim.
        probability: that it answers the question, 0 to 1.
        in_title: the part of the question that the passage's title covers, 0 to 1.
    """

    number: int
    index: int
    sentence: str
    probability: float
    in_title: float


def find_answers(question: Question, passages: Sequence[Passage]) -> list[AnswerSpan]:
    """The best sentence of each passage, best first; those of a passage whose title has the asked list position lead.

    Args:
        question: parsed.
        passages: in the order retrieved, with their scores.
    """
    texts = [analyse(passage.title, passage.text) for passage in passages]
    scorer = _scorers()["vectors" if any(each.nearness is not None for each in passages) else "words"]
    best: dict[int, tuple[float, int, Mapping[str, float]]] = {}
    for rank, index, values in features(question, weigh(question, texts), texts, passages):
        ranked = scorer.ranking(values)
        if (rank not in best or ranked > best[rank][0]) and holds_value(question, texts[rank], index):
            best[rank] = (ranked, index, values)
    asked = ordinals(question.text)
    listed = {rank for rank in best if asked and not asked.isdisjoint(ordinals(passages[rank].title))}
    order = sorted(best, key=lambda rank: (rank not in listed, -best[rank][0], rank))
    return [
        AnswerSpan(
            number=passages[rank].number,
            index=index,
            sentence=texts[rank].sentences[index].text,
            probability=scorer.probability(values),
            in_title=values["title"],
        )
        for rank in order
        for _, index, values in [best[rank]]
    ]


@cache
def _scorers() -> Mapping[str, Scorer]:
    """The weights for passages found by words alone, and by words and vectors."""
    raw = yaml.safe_load((files(__package__) / "data" / "scorer.yaml").read_text(encoding="utf-8"))
    return msgspec.convert(raw, dict[str, Scorer])
