"""The order of a search's hits: by words, by vector, or by both, fused; pure functions shared by backends.

Each function reads the scores of all candidates. A backend gives those of the query's ``ids``, or else the union of the
best ``pool`` entries by words and the best ``pool`` by vector, each with both of its scores. So the order depends on
the pool, and never on how many hits are wanted.
"""

from collections.abc import Iterable, Mapping
from math import fsum, sqrt
from typing import NamedTuple

from wenmai.stores.structs import RankFusion, SearchQuery, WeightedFusion

SMALLEST_DEVIATION = 1e-6
"""A smaller deviation is the rounding of equal scores, and tells no entry from another."""


class Scores(NamedTuple):
    """The scores of a candidate: see :class:`wenmai.stores.structs.Hit`."""

    lexical: float
    similarity: float | None


def best(query: SearchQuery, candidates: Mapping[str, Scores]) -> list[str]:
    """The ids of the query's hits, best first, at most ``query.limit``, ties by id.

    Args:
        query: valid, as checked by :mod:`wenmai.stores.search_values`.
        candidates: the scores of every candidate, by id. With text or vector alone, the best ``limit`` entries are
            enough.
    """
    if query.vector is None:
        scores = {id_: score.lexical for id_, score in candidates.items()}
    elif query.text is None:
        scores = {
            id_: float("-inf") if score.similarity is None else score.similarity for id_, score in candidates.items()
        }
    elif isinstance(query.fusion, RankFusion):
        scores = _by_ranks(candidates, query.fusion, len(candidates) if query.ids is not None else query.pool)
    else:
        scores = _by_weights(candidates, query.fusion)
    return descending(scores)[: query.limit]


def _by_ranks(candidates: Mapping[str, Scores], fusion: RankFusion, pool: int) -> dict[str, float]:
    """Reciprocal rank fusion of the best ``pool`` by words and by vector.

    An entry that matches no word, or has no vector, is in no such list.
    """
    words = {id_: score.lexical for id_, score in candidates.items() if score.lexical > 0}
    vectors = {id_: score.similarity for id_, score in candidates.items() if score.similarity is not None}
    scores = dict.fromkeys(candidates, 0.0)
    for ranking in (descending(words), descending(vectors)):
        for rank, id_ in enumerate(ranking[:pool], start=1):
            scores[id_] += 1 / (fusion.constant + rank)
    return scores


def _by_weights(candidates: Mapping[str, Scores], fusion: WeightedFusion) -> dict[str, float]:
    """The weighted sum of the z-scores; a missing similarity counts as the mean, 0."""
    words_mean, words_deviation = _distribution(score.lexical for score in candidates.values())
    mean, deviation = _distribution(score.similarity for score in candidates.values() if score.similarity is not None)
    return {
        id_: fusion.words * _standardised(score.lexical, words_mean, words_deviation)
        + fusion.vector * _standardised(score.similarity, mean, deviation)
        for id_, score in candidates.items()
    }


def _distribution(scores: Iterable[float]) -> tuple[float, float]:
    """The mean and the standard deviation (of the whole population); zeros without scores."""
    values = list(scores)
    if not values:
        return 0.0, 0.0
    mean = fsum(values) / len(values)
    return mean, sqrt(fsum((value - mean) ** 2 for value in values) / len(values))


def _standardised(score: float | None, mean: float, deviation: float) -> float:
    return 0.0 if score is None or deviation < SMALLEST_DEVIATION else (score - mean) / deviation


def descending(scores: Mapping[str, float]) -> list[str]:
    """The ids by descending score, ties by id."""
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)  # equal ones stay in order when reversed too
