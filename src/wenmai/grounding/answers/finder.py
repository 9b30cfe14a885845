"""Finds the sentences of the evidence that answer a question, with the probability that they do.

Two linear models over the features of :mod:`.features`, in ``data/scorer.yaml``: the first ranks the sentences of all
passages, the second decides from the best sentence of a passage whether that answers the question.
"""

from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from math import exp

import msgspec
import yaml

from wenmai.grounding.answers.features import FEATURES, features, weigh
from wenmai.grounding.answers.passages import analyse
from wenmai.grounding.answers.question import Question
from wenmai.grounding.answers.relevance import holds_value
from wenmai.grounding.types import Passage


class Scorer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Weights of the two models, by feature, and the probability from which a question is answered."""

    rank: dict[str, float]
    decide: dict[str, float]
    constant: float
    answered: float


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
    """The best sentence of each passage, best first.

    Args:
        question: parsed.
        passages: in the order retrieved, with their scores.
    """
    texts = [analyse(passage.title, passage.text) for passage in passages]
    best: dict[int, tuple[float, int, list[float]]] = {}
    scorer = _scorer()
    for rank, index, values in features(question, weigh(question, texts), texts, passages):
        ranked = sum(map(float.__mul__, scorer.ranking, values))
        if (rank not in best or ranked > best[rank][0]) and holds_value(question, texts[rank], index):
            best[rank] = (ranked, index, values)
    order = sorted(best, key=lambda rank: (-best[rank][0], rank))
    return [
        AnswerSpan(
            number=passages[rank].number,
            index=best[rank][1],
            sentence=texts[rank].sentences[best[rank][1]].text,
            probability=scorer.probability(best[rank][2]),
            in_title=best[rank][2][FEATURES.index("title")],
        )
        for rank in order
    ]


def answers_from() -> float:
    """The probability from which a sentence answers."""
    return _scorer().answered


class _Compiled(msgspec.Struct, frozen=True, kw_only=True):
    ranking: list[float]
    deciding: list[float]
    constant: float
    answered: float

    def probability(self, values: Sequence[float]) -> float:
        return 1 / (1 + exp(-sum(map(float.__mul__, self.deciding, values)) - self.constant))


@cache
def _scorer() -> _Compiled:
    raw = yaml.safe_load((files(__package__) / "data" / "scorer.yaml").read_text(encoding="utf-8"))
    scorer = msgspec.convert(raw, Scorer)
    return _Compiled(
        ranking=[scorer.rank[name] for name in FEATURES],
        deciding=[scorer.decide[name] for name in FEATURES],
        constant=scorer.constant,
        answered=scorer.answered,
    )
