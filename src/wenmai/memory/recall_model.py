"""What a model may do for recall: put the best items into another order, and split a question into several."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import Protocol

from wenmai.errors import ModelError
from wenmai.providers.rerankers import CROSS_ENCODER, CrossEncoder
from wenmai.scope import Scope

RERANKED = 20
"""Best items that a reranker may put into another order."""

MOST_PARTS = 4
WEIGHT = 0.3
"""Of the z-score of another scorer."""

_log = logging.getLogger(__name__)


class RecallModelFailed(Exception):
    """The model gave no usable answer; recall goes on without it."""


class Reranker(Protocol):
    """Judges items by their texts."""

    async def order(
        self, scope: Scope, session_id: str | None, query: str, texts: Sequence[str], scores: Sequence[float]
    ) -> list[int]:
        """The indexes of the texts, best first; :func:`complete_order` makes an order of them.

        Args:
            scope: of the user.
            session_id: that is searched; None for all.
            query: the question.
            texts: of the items.
            scores: by which the items are in order.

        Raises:
            RecallModelFailed: it cannot say.
        """
        ...


class QueryDecomposer(Protocol):
    """Splits questions whose answer is spread over several messages."""

    async def parts(self, scope: Scope, session_id: str | None, query: str) -> list[str]:
        """One to four questions that are searched beside the query; they do not refer to each other.

        Raises:
            RecallModelFailed: it cannot say.
        """
        ...


class TextScorer(Protocol):
    """Such as a cross-encoder."""

    async def scores(self, query: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the query, on any scale.

        Raises:
            ModelError: it failed.
        """
        ...


class ScoreReranker:
    """Adds the z-score of another scorer to the score of each item.

    Args:
        scorer: such as a cross-encoder.
        seconds: timeout of a call.
    """

    def __init__(self, scorer: TextScorer, seconds: float) -> None:
        self._scorer = scorer
        self._seconds = seconds

    async def order(
        self, _scope: Scope, _session_id: str | None, query: str, texts: Sequence[str], scores: Sequence[float]
    ) -> list[int]:
        """The indexes of the texts by the sum, highest first.

        Raises:
            RecallModelFailed: there are no scores in time.
        """
        try:
            async with asyncio.timeout(self._seconds):
                given = await self._scorer.scores(query, texts)
        except (ModelError, TimeoutError) as problem:
            _log.warning("no reranking: %s", str(problem) or f"no scores in {self._seconds:g} s")
            raise RecallModelFailed from problem
        mean, deviation = fmean(given), pstdev(given) or 1.0
        total = [own + WEIGHT * (other - mean) / deviation for own, other in zip(scores, given, strict=True)]
        return sorted(range(len(total)), key=lambda index: (-total[index], index))


def named_reranker(name: str, seconds: float) -> Reranker | None:
    """The reranker ``cross-encoder:NAME``; None for any other name.

    Raises:
        MissingExtra: its package is not installed.
    """
    if not name.startswith(CROSS_ENCODER):
        return None
    return ScoreReranker(CrossEncoder(name.removeprefix(CROSS_ENCODER)), seconds)


def complete_order(given: Iterable[int], count: int) -> list[int]:
    """An order of all ``count`` items: those given first, once each; unknown ones are ignored, missing ones follow."""
    known = dict.fromkeys(index for index in given if 0 <= index < count)
    return [*known, *(index for index in range(count) if index not in known)]
