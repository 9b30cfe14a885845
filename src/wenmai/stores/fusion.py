"""The order of a search's hits: by words, by vector, or by both, fused; pure functions shared by backends.

Each function reads the scores of all candidates. A backend gives those of the query's ``ids``, or else the union of the
best ``pool`` entries by words and the best ``pool`` by vector, each with both of its scores. So the order depends on
the pool, and never on how many hits are wanted.
"""

from collections.abc import Mapping, Sequence
from math import fsum, inf, sqrt
from typing import NamedTuple

from wenmai.stores.structs import RankFusion, SearchQuery, WeightedFusion

SMALLEST_DEVIATION = 1e-6
"""A smaller deviation is the rounding of equal scores, and tells no entry from another."""


class Candidates(NamedTuple):
    """The ids of candidates and their scores, in any order: see :class:`wenmai.stores.structs.Hit`."""

    ids: Sequence[str]
    lexical: Sequence[float]
    similarities: Sequence[float | None]


def best(query: SearchQuery, candidates: Candidates) -> list[int]:
    """The places of the query's hits among the candidates, best first, at most ``query.limit``, ties by id.

    Args:
        query: valid, as checked by :mod:`wenmai.stores.search_values`.
        candidates: every one. With text or vector alone, the best ``limit`` entries are enough.
    """
    scores: Sequence[float]
    if query.vector is None:
        scores = candidates.lexical
    elif query.text is None:
        scores = [-inf if similarity is None else similarity for similarity in candidates.similarities]
    elif isinstance(query.fusion, RankFusion):
        scores = _by_ranks(candidates, query.fusion, len(candidates.ids) if query.ids is not None else query.pool)
    else:
        scores = _by_weights(candidates, query.fusion)
    return descending(scores, candidates.ids)[: query.limit]


def pool(ids: Mapping[int, str], count: int, *lists: Mapping[int, float]) -> dict[int, None]:
    """The entries among the best ``count`` of a list; of equal ones those with the smallest ids.

    Args:
        ids: of the entries that may be chosen.
        count: of each list.
        lists: scores, which may be of other entries too.
    """
    chosen: dict[int, None] = {}
    for scores in lists:
        listed = [entry for entry in scores if entry in ids]
        if len(listed) > count:
            order = descending([scores[entry] for entry in listed], [ids[entry] for entry in listed])
            listed = [listed[place] for place in order[:count]]
        chosen |= dict.fromkeys(listed)
    return chosen


def _by_ranks(candidates: Candidates, fusion: RankFusion, count: int) -> list[float]:
    """Reciprocal rank fusion of the best ``count`` by words and by vector.

    An entry that matches no word, or has no vector, is in no such list.
    """
    words = {place: score for place, score in enumerate(candidates.lexical) if score > 0}
    vectors = {place: score for place, score in enumerate(candidates.similarities) if score is not None}
    scores = [0.0] * len(candidates.ids)
    for ranked in (words, vectors):
        listed = list(ranked)
        order = descending(list(ranked.values()), [candidates.ids[place] for place in listed])
        for rank, place in enumerate(order[:count], start=1):
            scores[listed[place]] += 1 / (fusion.constant + rank)
    return scores


def _by_weights(candidates: Candidates, fusion: WeightedFusion) -> list[float]:
    """The weighted sum of the z-scores; a missing similarity counts as the mean, 0."""
    words = _standardised(candidates.lexical, fusion.words)
    vectors = _standardised(candidates.similarities, fusion.vector)
    return [word + vector for word, vector in zip(words, vectors, strict=True)]


def _standardised(scores: Sequence[float | None], weight: float) -> list[float]:
    """The weighted distances from the mean in standard deviations (of the whole population); 0 without a score."""
    values = [score for score in scores if score is not None]
    if not values:
        return [0.0] * len(scores)
    mean = fsum(values) / len(values)
    deviation = sqrt(fsum([(value - mean) ** 2 for value in values]) / len(values))
    if deviation < SMALLEST_DEVIATION:
        return [0.0] * len(scores)
    return [0.0 if score is None else weight * ((score - mean) / deviation) for score in scores]


def descending(scores: Sequence[float], ids: Sequence[str]) -> list[int]:
    """The places by descending score, ties by id."""
    places: Sequence[int] = range(len(scores))
    if len(set(scores)) < len(places):
        places = sorted(places, key=ids.__getitem__)
    return sorted(places, key=scores.__getitem__, reverse=True)  # equal ones stay in order when reversed too
